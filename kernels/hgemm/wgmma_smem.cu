// wgmma_smem: the tensor cores read both operands from shared memory.
//
// The one idea it adds to `bcf_dbf_rw`: wgmma. There a warp loads fragments of A and B into registers with
// ldmatrix, and each tile of A is loaded by four warps, each of B by two. Here four warps, a warp group,
// hand the tiles themselves to the tensor cores, which read B once for 64 rows of A, and go on while the
// group does something else. All the registers are left for sums.
//
//     one instruction     mma.sync              wgmma
//     computes            16 x 8 x 16           64 x 128 x 16
//     reads               registers             shared memory
//     sums lie in         a warp                four warps
//
// The tiles come by cp.async as before, into a ring of STAGES buffers, swizzled as wgmma wants it. Those
// are writes of the generic proxy, and wgmma reads through the asynchronous one: a fence stands between.
// A copy of 16 bytes that reaches beyond a row or below the last one fills up with zeros, so that any m, n, k
// will do.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STAGES: of the ring.
// Launch:    2 BM threads (1-D), a warp group per 64 rows; grid x over tiles of n, y over tiles of m;
//            dynamic shared memory: the ring and 1024 bytes to align it.
// Requires:  lda, ldb, ldc multiples of 8; A, B, C 16-byte aligned; sm_90a.

#include "include/fragments.cuh"
#include "include/grid.cuh"
#include "include/ptx.cuh"
#include "include/wgmma.cuh"

// cp.async of 16 bytes, of which `bytes` are read and the rest is zero.
__device__ __forceinline__ void copy_piece(uint32_t to, const void* from, int bytes) {
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
    constexpr int PIECE = 16 / sizeof(T);      // elements that a thread copies at a time
    constexpr int PIECES = 128 / sizeof(T) / PIECE;  // of a row in shared memory
    constexpr int A_BYTES = BM * BK * sizeof(T);
    constexpr int STAGE_BYTES = A_BYTES + BK * BN * sizeof(T);
    static_assert(BK == 64 && BN % 64 == 0, "rows of 128 bytes");

    const TilePlace tile = tile_in_strips();
    const int row = tile.m * BM;
    const int col = tile.n * BN;
    if (alpha == 0.0f) return scale_c<BM, BN>(row, col, m, n, beta, C, ldc);

    extern __shared__ uint8_t memory[];
    const uint32_t ring = (ptx::shared_address(memory) + wgmma::ATOM_BYTES - 1u) & ~(wgmma::ATOM_BYTES - 1u);
    auto a_tile = [&](int stage) { return ring + stage * STAGE_BYTES; };
    auto b_tile = [&](int stage) { return ring + stage * STAGE_BYTES + A_BYTES; };

    // Tiles of a step over k, from global to shared memory. Piece p of row r goes to p ^ (r % 8).
    auto copy = [&](int step, int stage) {
        const int piece = threadIdx.x % PIECES;
        const int k0 = step * BK;
#pragma unroll
        for (int r = threadIdx.x / PIECES; r < BM; r += THREADS / PIECES) {
            const int left = row + r < m ? k - (k0 + piece * PIECE) : 0;
            const T* from = left > 0 ? &A[static_cast<int64_t>(row + r) * lda + k0 + piece * PIECE] : A;
            copy_piece(a_tile(stage) + r * 128 + (piece ^ r % 8) * 16, from, left * sizeof(T));
        }
#pragma unroll
        for (int i = threadIdx.x / PIECES; i < BK * BN / 64; i += THREADS / PIECES) {  // 64 columns, then the next
            const int r = i % BK;
            const int c = col + i / BK * 64 + piece * PIECE;
            const int left = k0 + r < k ? n - c : 0;
            const T* from = left > 0 ? &B[static_cast<int64_t>(k0 + r) * ldb + c] : B;
            copy_piece(b_tile(stage) + i * 128 + (piece ^ r % 8) * 16, from, left * sizeof(T));
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
        __syncthreads();  // this stage is complete, and nobody multiplies the one before any more
        if (step + STAGES - 1 < steps) copy(step + STAGES - 1, (step + STAGES - 1) % STAGES);
        ptx::cp_async_commit();

        wgmma::fence();
#pragma unroll
        for (int p = 0; p < BK; p += 16) {
            wgmma::multiply<T>(sum, wgmma::rows_along_k<T>(a_tile(stage) + group * 64 * 128, p),
                               wgmma::rows_along_n<T, BK>(b_tile(stage), p), step + p > 0);
        }
        wgmma::commit();
        wgmma::wait<0>();
    }
    store_fragments(sum, row + group * wgmma::ROWS, col, m, n, alpha, beta, C, ldc);
}
