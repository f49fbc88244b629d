// t128x128x8_texld: A and B come through textures, four elements a fetch.
//
// The one idea it adds to `t128x128x8`: one fetch brings what took four loads, and its index is one
// 32-bit number. A texture answers an index outside with zeros, so that no fetch has a condition,
// also those of rows and columns that C does not have.
//
//     global A          tiles in shared memory, transposed
//       p ->                row ->
//     r  xyzw  xyzw       p x . . .      a warp fetches 16 rows x 8 k as 16 x 2 texels; stored
//     o  ....  ....         y . . .      word by word, these hit 32 banks: 4 rows of tile are
//     w  ....  ....         z . . .      4 * 132 words apart, 16 banks
//                           w . . .
//
// Steps begin at multiples of 8 also where k is none, since they are counted from the front, though
// made from the back. Beyond the end of k, a row's texels hold whatever comes next in memory, even
// NaN: zeros take their place in the first step.
//
// Template:  BM, BN, BK: the block's tile.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m. Two more arguments: the
//            textures, linear memory with float4 elements that ends with the last row of A and B.
//            CUDA wants such memory aligned to 512 bytes: they begin at or before A and B, where
//            the last multiple of 512 is.
// Requires:  lda, ldb multiples of 4; A, B 16-byte aligned.
// Source:    sgemm_cu, section 6.
// Run:       make try KERNEL=sgemm_t128x128x8_texld

#include "include/ptx.cuh"
#include "include/warp_tile.cuh"

// How many texels of its texture lie before a matrix.
__device__ __forceinline__ int texels_before(const float* matrix) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(matrix) % 512 / sizeof(float4));
}

template <int BM, int BN, int BK>
__global__ void __launch_bounds__(256, 2)
sgemm_t128x128x8_texld(int m, int n, int k, float alpha, const float* A, int lda, const float* B,
                       int ldb, float beta, float* C, int ldc, cudaTextureObject_t tex_a,
                       cudaTextureObject_t tex_b) {
    if (alpha == 0.0f) return scale_c<BM, BN>(blockIdx.y * BM, blockIdx.x * BN, m, n, beta, C, ldc);

    constexpr int TM = 8, TN = 8, LANES_M = 4, LANES_N = 8;
    constexpr int WM = TM * LANES_M, WN = TN * LANES_N;
    constexpr int A_LD = BM + 4;
    constexpr uint32_t SLOT = 16384, A_BYTES = BK * A_LD * sizeof(float);  // a slot has A, then B
    static_assert(BM == 128 && BN == 128 && BK == 8, "256 threads copy a texel of each");
    // From sm_90 on a block's memory begins 1 KB into the window, whatever alignment is asked for.
    static_assert(A_BYTES + BK * BN * sizeof(float) + 1024 <= SLOT, "an XOR moves by one slot");

    __shared__ alignas(SLOT) float tiles[2 * SLOT / sizeof(float)];
    const uint32_t shared = ptx::shared_address(tiles);

    // The texel that this thread copies of each: four columns of A, and of B.
    const int load_a_row = threadIdx.x / (BK / 4);
    const int load_a_col = threadIdx.x % (BK / 4) * 4;
    const int load_b_row = threadIdx.x / (BN / 4);
    const int load_b_col = threadIdx.x % (BN / 4) * 4;
    uint32_t a_store = shared + (load_a_col * A_LD + load_a_row) * 4;
    uint32_t b_store = shared + A_BYTES + (load_b_row * BN + load_b_col) * 4;

    // The indices move from step to step, beginning with the last.
    const int last = (k - 1) / BK * BK;
    int a_at = texels_before(A) + (blockIdx.y * BM + load_a_row) * (lda / 4) + (last + load_a_col) / 4;
    int b_at = texels_before(B) + (last + load_b_row) * (ldb / 4) + (blockIdx.x * BN + load_b_col) / 4;

    // The upper left corner of the warp's tile, and what this thread reads for its own patches.
    const int warp_row = threadIdx.x / 32 / (BN / WN) * WM;
    const int warp_col = threadIdx.x / 32 % (BN / WN) * WN;
    const Lane<LANES_N> lane;
    uint32_t a_load = shared + (warp_row + lane.row * 4) * 4;
    uint32_t b_load = shared + A_BYTES + (warp_col + lane.col * 4) * 4;

    // The three stages of a step. First: from global memory to registers.
    float4 a_next, b_next;
    auto fetch = [&] {
        a_next = tex1Dfetch<float4>(tex_a, a_at);
        b_next = tex1Dfetch<float4>(tex_b, b_at);
    };
    // Second: from registers to shared memory.
    auto stage = [&] {
        ptx::store_shared(a_store + 0 * A_LD * 4, a_next.x);
        ptx::store_shared(a_store + 1 * A_LD * 4, a_next.y);
        ptx::store_shared(a_store + 2 * A_LD * 4, a_next.z);
        ptx::store_shared(a_store + 3 * A_LD * 4, a_next.w);
        ptx::store_shared_4(b_store, b_next);
    };
    // Third: to fragments, for the outer product of step p.
    float a[2][TM], b[2][TN];
    auto load = [&](int p) {
        load_fragment<LANES_M * 4>(a[p % 2], a_load + p * A_LD * 4);
        load_fragment<LANES_N * 4>(b[p % 2], b_load + p * BN * 4);
    };

    fetch();
    const int rest = k - last;
    if (load_a_col + 0 >= rest) a_next.x = 0.0f;
    if (load_a_col + 1 >= rest) a_next.y = 0.0f;
    if (load_a_col + 2 >= rest) a_next.z = 0.0f;
    if (load_a_col + 3 >= rest) a_next.w = 0.0f;
    if (load_b_row >= rest) b_next = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    stage();
    __syncthreads();
    load(0);

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < last; k0 += BK) {
        a_at -= BK / 4;
        b_at -= BK * (ldb / 4);
        fetch();
#pragma unroll
        for (int p = 0; p < BK; ++p) {
            if (p == BK - 1) {
                a_store ^= SLOT, b_store ^= SLOT;
                a_load ^= SLOT, b_load ^= SLOT;
                stage();
                __syncthreads();  // the other tiles are complete, and nobody needs these any more
            }
            load((p + 1) % BK);
            add_outer_product<Order::snake>(sum, a[p % 2], b[p % 2]);
        }
    }
#pragma unroll
    for (int p = 0; p < BK; ++p) {
        if (p < BK - 1) load(p + 1);
        add_outer_product<Order::snake>(sum, a[p % 2], b[p % 2]);
    }

    __syncthreads();  // the tiles give way to the sums
    const uint32_t scratch =
        shared + threadIdx.x / 32 * LANES_M * SCRATCH_LD<LANES_N, TN> * sizeof(float);
    store_tile<LANES_N>(sum, scratch, blockIdx.y * BM + warp_row, blockIdx.x * BN + warp_col, m, n,
                        alpha, beta, C, ldc);
}
