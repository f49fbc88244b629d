// naive: fp32 data through the tensor cores.
//
// The first rung of the TF32 ladder. A tensor core takes an fp32 number as it lies in memory and
// reads its upper 19 bits: sign, exponent and ten bits of mantissa. So the kernel is the 16-bit one
// of hgemm/naive.cu (cp.async, ldmatrix, mma.sync, two warps by four) with half as many elements in
// the same bytes; what differs is how fragments are read.
//
//     A 16x8    an 8x8 matrix of 16-bit elements is one of 8x4 words. ldmatrix gives lane l the
//               pair at row l/4, state l%4, where mma wants A's word: a pair is a number.
//     B 8x8     row-major, mma wants columns, and .trans would tear the pairs apart: two plain
//               loads, of rows l%4 and l%4 + 4 of column l/4.
//
//     block tile 128 x 128        warp tile 64 x 32           one mma, 8 of k
//     +----+----+----+----+       +----+----+----+----+                   +---------+
//     | w0 | w1 | w2 | w3 |       |16x8|    |    |    |                   |  B 8x8  | two loads
//     +----+----+----+----+       +----+----+----+----+                   +---------+
//     | w4 | w5 | w6 | w7 |       |    |    |    |    |        +--------+ +---------+
//     +----+----+----+----+       +----+----+----+----+        | A 16x8 | | C 16x8  | fp32
//                                 |    |    |    |    |        +--------+ +---------+
//                                 +----+----+----+----+            x4
//                                 |    |    |    |    |
//                                 +----+----+----+----+       A lane has, of C, rows lane/4 and +8
//                                                             of columns lane%4*2 and +1.
//
// Cutting off the other 13 bits rounds towards zero; bcf_dbf has the other way as well.
//
// Template:  BM, BN, BK: the block's tile.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb multiples of 4, ldc of 2; A, B, C 16-byte
//            aligned; sm_80 or newer.
// Source:    wingedge_hgemm, section 1, which names the instructions of its author's
//            tf32 kernel; the kernel itself is in none of the worklogs.

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/tile_scheduler.cuh"

template <int BM, int BN, int BK>
__global__ void __launch_bounds__(256, 2)
tf32gemm_naive(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
               float beta, float* C, int ldc) {
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

    __shared__ alignas(16) float a_tile[BM][BK];
    __shared__ alignas(16) float b_tile[BK][BN];

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
    if (alpha == 0.0f) return scale_c<BM, BN>(tile.m * BM, tile.n * BN, m, n, beta, C, ldc);
    A += (tile.m * BM + load_a_row) * lda + load_a_col;
    B += load_b_row * ldb + tile.n * BN + load_b_col;
    C += tile.m * BM * ldc + tile.n * BN;

    // A step over k, in two stages. First: from global to shared memory.
    auto copy = [&] {
#pragma unroll
        for (int i = 0; i < BM; i += A_ROWS) {
            ptx::cp_async_16(ptx::shared_address(&a_tile[load_a_row + i][load_a_col]), &A[i * lda]);
        }
#pragma unroll
        for (int i = 0; i < BK; i += B_ROWS) {
            ptx::cp_async_16(ptx::shared_address(&b_tile[load_b_row + i][load_b_col]), &B[i * ldb]);
        }
        ptx::cp_async_commit();
        A += BK;
        B += BK * ldb;
    };

    // Second: from shared memory through the tensor cores.
    float sum[MMA_M][MMA_N][4] = {};
    auto multiply = [&] {
#pragma unroll
        for (int p = 0; p < BK; p += 8) {
            uint32_t a[MMA_M][4], b[MMA_N][2];
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
                // In the order of mma: rows 0-7, then 8-15, of columns 0-3; the same of 4-7.
                const int row = warp_row + i * 16 + lane % 16;
                const int col = p + lane / 16 * 4;
                ptx::ldmatrix_x4(a[i], ptx::shared_address(&a_tile[row][col]));
            }
#pragma unroll
            for (int j = 0; j < MMA_N; ++j) {
                const int row = p + lane % 4;
                const int col = warp_col + j * 8 + lane / 4;
                b[j][0] = __float_as_uint(b_tile[row][col]);
                b[j][1] = __float_as_uint(b_tile[row + 4][col]);
            }
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
#pragma unroll
                for (int j = 0; j < MMA_N; ++j) {
                    ptx::mma_m16n8k8_tf32(sum[i][j], a[i], b[j]);
                }
            }
        }
    };

#pragma unroll 1  // unrolled, it takes more registers than two blocks an SM have
    for (int k0 = 0; k0 < k; k0 += BK) {
        copy();
        ptx::cp_async_wait<0>();
        __syncthreads();
        multiply();
        __syncthreads();
    }

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
