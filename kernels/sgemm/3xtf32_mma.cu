// 3xtf32_mma: fp32's accuracy from tensor cores that read 19 bits.
//
// The one idea it adds to tf32gemm/bcf_dbf: each number is split in two. Its TF32 part `big` is the nearest
// number of 11 significant bits, and `small`, the TF32 part of what is left, has the next 11. Three products
// then stand for one; the fourth, small times small, is below what fp32 keeps:
//
//     a b  =  big big  +  big small  +  small big     the small ones first, into the same sum
//
// A warp splits what it reads, in registers, so that memory sees nothing of it; each number of A is split by
// four warps and each of B by two.
//
// OUTSIDE: a tensor core cuts off where fp32 arithmetic would round, always towards zero, and the sums of
// long rows drift. With OUTSIDE it sums BK products from zero, and an ordinary addition, which rounds, adds
// that to a sum of its own: one more addition for each element of C and step of BK.
//
// What differs from fp32: a product with Inf is NaN, for Inf has no finite rest; and numbers below 2^-115 lose
// their small part, which becomes denormal.
//
// Template:  OUTSIDE: as above; BM, BN, BK: the block's tile.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb multiples of 4, ldc of 2; A, B, C 16-byte
//            aligned; sm_80 or newer.
// Source:    the split: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while
//            surpassing the FP32 theoretical peak performance", 2022.
// Run:       make try KERNEL=sgemm_3xtf32_mma

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/split.cuh"
#include "include/swizzle.cuh"
#include "include/tile_scheduler.cuh"

template <bool OUTSIDE, int BM, int BN, int BK>
__global__ void __launch_bounds__(256)
sgemm_3xtf32_mma(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
                 float beta, float* C, int ldc) {
    if (alpha == 0.0f) return scale_c<BM, BN>(blockIdx.y * BM, blockIdx.x * BN, m, n, beta, C, ldc);

    constexpr int THREADS = 256;
    constexpr int WM = BM / 2;  // a warp's tile: 2 x 4 warps
    constexpr int WN = BN / 4;
    constexpr int MMA_M = WM / 16;  // mma instructions along each side of it
    constexpr int MMA_N = WN / 8;
    constexpr int A_ROWS = THREADS / (BK / 4);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / 4);
    static_assert(WM % 16 == 0 && WN % 8 == 0 && BK % 8 == 0, "tiles made of whole mma shapes");
    static_assert(THREADS % (BK / 4) == 0 && THREADS % (BN / 4) == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");

    __shared__ alignas(16) float a_tile[2][BM][BK];  // both swizzled
    __shared__ alignas(16) float b_tile[2][BK][BN];

    // The four words that this thread copies (in the first pass).
    const int load_a_row = threadIdx.x / (BK / 4);
    const int load_a_col = threadIdx.x % (BK / 4) * 4;
    const int load_b_row = threadIdx.x / (BN / 4);
    const int load_b_col = threadIdx.x % (BN / 4) * 4;

    // The upper left corner of its warp's tile.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / 4 * WM;
    const int warp_col = warp % 4 * WN;

    const TileCoord tile = block_tile();
    A += (tile.m * BM + load_a_row) * lda + load_a_col;
    B += load_b_row * ldb + tile.n * BN + load_b_col;
    C += tile.m * BM * ldc + tile.n * BN;

    // A step over k, in two stages. First: from global to shared memory.
    auto copy = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < BM; i += A_ROWS) {
            const int row = load_a_row + i;
            const int col = swizzle<float, BK>(row, load_a_col);
            ptx::cp_async_16(ptx::shared_address(&a_tile[buffer][row][col]), &A[i * lda]);
        }
#pragma unroll
        for (int i = 0; i < BK; i += B_ROWS) {
            const int row = load_b_row + i;
            const int col = load_b_col ^ (row % 4 * 8);
            ptx::cp_async_16(ptx::shared_address(&b_tile[buffer][row][col]), &B[i * ldb]);
        }
        ptx::cp_async_commit();
        A += BK;
        B += BK * ldb;
    };

    // Second: from shared memory, in two parts each, through the tensor cores.
    float sum[MMA_M][MMA_N][4] = {};
    auto multiply = [&](int buffer) {
        float inside[MMA_M][MMA_N][4] = {};  // of this step, where they are kept apart
#pragma unroll
        for (int p = 0; p < BK; p += 8) {
            Split b[MMA_N][2];
#pragma unroll
            for (int j = 0; j < MMA_N; ++j) {
                const int row = p + lane % 4;
                const int col = (warp_col + j * 8 + lane / 4) ^ (row % 4 * 8);
                b[j][0] = split(b_tile[buffer][row][col]);
                b[j][1] = split(b_tile[buffer][row + 4][col]);
            }
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
                // In the order of mma: rows 0-7, then 8-15, of columns 0-3; the same of 4-7.
                const int row = warp_row + i * 16 + lane % 16;
                const int col = swizzle<float, BK>(row, p + lane / 16 * 4);
                uint32_t words[4], big[4], small[4];
                ptx::ldmatrix_x4(words, ptx::shared_address(&a_tile[buffer][row][col]));
#pragma unroll
                for (int w = 0; w < 4; ++w) {
                    const Split a = split(__uint_as_float(words[w]));
                    big[w] = a.big;
                    small[w] = a.small;
                }
#pragma unroll
                for (int j = 0; j < MMA_N; ++j) {
                    const uint32_t b_big[2] = {b[j][0].big, b[j][1].big};
                    const uint32_t b_small[2] = {b[j][0].small, b[j][1].small};
                    auto& to = OUTSIDE ? inside[i][j] : sum[i][j];
                    ptx::mma_m16n8k8_tf32(to, small, b_big);
                    ptx::mma_m16n8k8_tf32(to, big, b_small);
                    ptx::mma_m16n8k8_tf32(to, big, b_big);
                }
            }
        }
        if constexpr (OUTSIDE) {
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
#pragma unroll
                for (int j = 0; j < MMA_N; ++j) {
#pragma unroll
                    for (int w = 0; w < 4; ++w) sum[i][j][w] += inside[i][j][w];
                }
            }
        }
    };

    copy(0);
    int buffer = 0;
    for (int k0 = BK; k0 < k; k0 += BK) {
        ptx::cp_async_wait<0>();
        __syncthreads();  // this buffer is complete, and nobody needs the other one any more
        copy(buffer ^ 1);
        multiply(buffer);
        buffer ^= 1;
    }
    ptx::cp_async_wait<0>();
    __syncthreads();
    multiply(buffer);

    // A lane's four sums of an mma: two neighbours in one row, two more eight rows below.
#pragma unroll
    for (int i = 0; i < MMA_M; ++i) {
#pragma unroll
        for (int j = 0; j < MMA_N; ++j) {
            const int row = warp_row + i * 16 + lane / 4;
            const int col = warp_col + j * 8 + lane % 4 * 2;
            update_c2(&C[row * ldc + col], alpha, &sum[i][j][0], beta);
            update_c2(&C[(row + 8) * ldc + col], alpha, &sum[i][j][2], beta);
        }
    }
}
