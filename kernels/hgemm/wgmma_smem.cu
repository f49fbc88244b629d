// wgmma_smem: the tensor cores read both operands from shared memory.
//
// The one idea it adds to `bcf_dbf_rw`: wgmma. There a warp loads fragments of A and B into registers with ldmatrix, so
// that every tile of A is read by four warps and every tile of B by two. Here the four warps of a warp group pass
// descriptors of the tiles to the tensor cores, which read B once for 64 rows of A and work asynchronously. All the
// registers are left for accumulators.
//
//     one instruction     mma.sync              wgmma
//     computes            16 x 8 x 16           64 x 128 x 16
//     reads               registers             shared memory
//     accumulates in      a warp                four warps
//
// The tiles still come by cp.async, into a circular buffer of STAGES stages, with the swizzle that wgmma reads.
// cp.async writes through the generic proxy and wgmma reads through the asynchronous one, so a proxy fence separates
// the two. Where a 16-byte copy reaches beyond the end of a row, or lies below the last row, the rest is filled with
// zeros, so that m, n and k may have any value.
//
// Roles:     none; all warp groups copy and multiply.
// Timeline:  per step: wait for the stage | __syncthreads | start the copy STAGES - 1 steps ahead | wgmma | wait for it
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the circular buffer.
// Launch:    2 BM threads (1-D), a warp group per 64 rows; grid x over tiles of n, y over tiles of m; dynamic shared
//            memory: the stages, and 1024 bytes to align them.
// Requires:  lda, ldb, ldc multiples of 8; A, B, C 16-byte aligned; sm_90a.
// Run:       make try KERNEL=hgemm_wgmma_smem_bf16

#include "include/fragments.cuh"
#include "include/ptx.cuh"
#include "include/tile_scheduler.cuh"
#include "include/wgmma.cuh"

// cp.async of a 16-byte chunk, of which `bytes` are read and the rest is filled with zeros.
__device__ __forceinline__ void copy_chunk(uint32_t to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(from), "r"(max(0, min(16, bytes)))
                 : "memory");
}

template <typename T, int BM, int BN, int BK, int STAGES>
__global__ void __launch_bounds__(2 * BM)
hgemm_wgmma_smem(int m, int n, int k, float alpha, const T* A, int lda, const T* B, int ldb, float beta, T* C,
                 int ldc) {
    constexpr int THREADS = 2 * BM;
    constexpr int CHUNK = 16 / sizeof(T);      // elements of 16 bytes
    constexpr int CHUNKS = 128 / sizeof(T) / CHUNK;  // in a row of shared memory
    constexpr int A_BYTES = BM * BK * sizeof(T);
    constexpr int STAGE_BYTES = A_BYTES + BK * BN * sizeof(T);
    static_assert(BK == 64 && BN % 64 == 0, "rows of 128 bytes");

    const TileCoord tile = block_tile();
    const int row = tile.m * BM;
    const int col = tile.n * BN;
    if (alpha == 0.0f) return scale_c<BM, BN>(row, col, m, n, beta, C, ldc);

    extern __shared__ uint8_t memory[];
    const uint32_t stages = (ptx::shared_address(memory) + wgmma::ATOM_BYTES - 1u) & ~(wgmma::ATOM_BYTES - 1u);
    auto a_tile = [&](int stage) { return stages + stage * STAGE_BYTES; };
    auto b_tile = [&](int stage) { return stages + stage * STAGE_BYTES + A_BYTES; };

    // Copies the tiles of a step from global to shared memory. Chunk c of row r goes to c ^ (r % 8).
    auto copy = [&](int step, int stage) {
        const int chunk = threadIdx.x % CHUNKS;
        const int k0 = step * BK;
#pragma unroll
        for (int r = threadIdx.x / CHUNKS; r < BM; r += THREADS / CHUNKS) {
            const int left = row + r < m ? k - (k0 + chunk * CHUNK) : 0;
            const T* from = left > 0 ? &A[static_cast<int64_t>(row + r) * lda + k0 + chunk * CHUNK] : A;
            copy_chunk(a_tile(stage) + r * 128 + (chunk ^ r % 8) * 16, from, left * sizeof(T));
        }
#pragma unroll
        for (int i = threadIdx.x / CHUNKS; i < BK * BN / 64; i += THREADS / CHUNKS) {  // by 64 columns
            const int r = i % BK;
            const int c = col + i / BK * 64 + chunk * CHUNK;
            const int left = k0 + r < k ? n - c : 0;
            const T* from = left > 0 ? &B[static_cast<int64_t>(k0 + r) * ldb + c] : B;
            copy_chunk(b_tile(stage) + i * 128 + (chunk ^ r % 8) * 16, from, left * sizeof(T));
        }
    };

    const int steps = (k + BK - 1) / BK;
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) copy(step, step);
        ptx::cp_async_commit();
    }

    const int group = threadIdx.x / wgmma::THREADS;
    float sum[BN / 2];
    for (int step = 0; step < steps; ++step) {
        const int stage = step % STAGES;
        ptx::cp_async_wait<STAGES - 2>();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();  // this stage is complete, and all warps have multiplied the previous one
        if (step + STAGES - 1 < steps) copy(step + STAGES - 1, (step + STAGES - 1) % STAGES);
        ptx::cp_async_commit();

        wgmma::fence();
#pragma unroll
        for (int p = 0; p < BK; p += 16) {
            wgmma::mma<T>(sum, wgmma::descriptor_k_major<T>(a_tile(stage) + group * 64 * 128, p),
                               wgmma::descriptor_mn_major<T, BK>(b_tile(stage), p), step + p > 0);
        }
        wgmma::commit();
        wgmma::wait<0>();
    }
    store_fragments(sum, row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
}
