// naive: tensor cores, fed from shared memory by the instructions made for that.
//
// The first rung of the 16-bit ladder: the tiling of the fp32 kernels, with three instructions in
// place of their inner loops. cp.async copies from global to shared memory without passing through
// registers; ldmatrix hands 8x8 matrices to the lanes in the layout that the tensor cores expect;
// mma.sync multiplies a 16x16 by a 16x8 matrix, a warp at a time. What it still lacks: rows lie in
// shared memory as they come, so the eight rows of an ldmatrix phase collide on banks; and there is
// one set of tiles, so copying and multiplying take turns.
//
//     block tile 128 x 128        warp tile 64 x 32           one mma, 16 of k
//     +----+----+----+----+       +----+----+----+----+                   +---------+
//     | w0 | w1 | w2 | w3 |       |16x8|    |    |    |                   | B 16x8  | x2.trans
//     +----+----+----+----+       +----+----+----+----+                   +---------+
//     | w4 | w5 | w6 | w7 |       |    |    |    |    |       +---------+ +---------+
//     +----+----+----+----+       +----+----+----+----+       | A 16x16 | | C 16x8  | fp32
//                                 |    |    |    |    |       +---------+ +---------+
//                                 +----+----+----+----+           x4
//                                 |    |    |    |    |
//                                 +----+----+----+----+       A lane has, of C, rows lane/4 and +8
//                                                             of columns lane%4*2 and +1.
//
// TF32 (T = float): a tensor core takes an fp32 number as it lies in memory and reads its upper 19
// bits: sign, exponent and ten bits of mantissa. Cutting off the other 13 rounds towards zero. The
// same bytes hold half as many elements, 8 of k for an mma, and fragments are read otherwise:
//
//     A 16x8    an 8x8 matrix of 16-bit elements is one of 8x4 words. ldmatrix gives lane l the
//               pair at row l/4, place l%4, where mma wants A's word: a pair is a number.
//     B 8x8     .trans would tear the pairs apart: two plain loads, of rows l%4 and l%4 + 4 of
//               column l/4.
//
// Blocks run in strips of 8 tile columns, which keeps L2 warm (include/tile_scheduler.cuh).
//
// Template:  T: __nv_bfloat16, __half, or float for TF32; BM, BN, BK: the block's tile.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb multiples of 16 bytes, ldc of 2 elements; A, B, C
//            16-byte aligned; sm_80 or newer.
// Source:    wingedge_hgemm, section 1 (hgemm_naive), which names the instructions of its author's
//            tf32 kernel; that kernel itself is in none of the worklogs.
// Run:       make try KERNEL=hgemm_naive_bf16

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/tile_scheduler.cuh"

template <typename T, int BM, int BN, int BK>
__global__ void __launch_bounds__(256, 2)
hgemm_naive(int m, int n, int k, float alpha, const T* A, int lda, const T* B, int ldb, float beta,
            T* C, int ldc) {
    constexpr int THREADS = 256;
    constexpr int PIECE = 16 / sizeof(T);  // elements that one cp.async copies
    constexpr int MMA_K = 2 * PIECE;       // of k that one mma takes
    constexpr int WM = BM / 2;  // a warp's tile: 2 x 4 warps
    constexpr int WN = BN / 4;
    constexpr int MMA_M = WM / 16;  // mma instructions along each side of it
    constexpr int MMA_N = WN / 8;
    constexpr int A_ROWS = THREADS / (BK / PIECE);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / PIECE);
    static_assert(WM % 16 == 0 && WN % 8 == 0 && BK % MMA_K == 0, "tiles made of whole mma shapes");
    static_assert(THREADS % (BK / PIECE) == 0 && THREADS % (BN / PIECE) == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");

    __shared__ alignas(16) T a_tile[BM][BK];
    __shared__ alignas(16) T b_tile[BK][BN];

    // The piece that this thread copies (in the first pass).
    const int load_a_row = threadIdx.x / (BK / PIECE);
    const int load_a_col = threadIdx.x % (BK / PIECE) * PIECE;
    const int load_b_row = threadIdx.x / (BN / PIECE);
    const int load_b_col = threadIdx.x % (BN / PIECE) * PIECE;

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
        for (int p = 0; p < BK; p += MMA_K) {
            uint32_t a[MMA_M][4], b[MMA_N][2];
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
                // In the order of mma: rows 0-7, then 8-15, of the first half of k; the same of the second.
                const int row = warp_row + i * 16 + lane % 16;
                const int col = p + lane / 16 * PIECE;
                ptx::ldmatrix_x4(a[i], ptx::shared_address(&a_tile[row][col]));
            }
#pragma unroll
            for (int j = 0; j < MMA_N; ++j) {
                // B is row-major and mma wants columns.
                if constexpr (sizeof(T) == 4) {
                    const int row = p + lane % 4;
                    const int col = warp_col + j * 8 + lane / 4;
                    b[j][0] = __float_as_uint(b_tile[row][col]);
                    b[j][1] = __float_as_uint(b_tile[row + 4][col]);
                } else {  // .trans; lanes 0-15 give the addresses
                    const int row = p + lane % 16;
                    const int col = warp_col + j * 8;
                    ptx::ldmatrix_x2_trans(b[j], ptx::shared_address(&b_tile[row][col]));
                }
            }
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
#pragma unroll
                for (int j = 0; j < MMA_N; ++j) {
                    if constexpr (sizeof(T) == 4) {
                        ptx::mma_m16n8k8_tf32(sum[i][j], a[i], b[j]);
                    } else {
                        ptx::mma_m16n8k16<T>(sum[i][j], a[i], b[j]);
                    }
                }
            }
        }
    };

    // Unrolled, TF32 takes more registers than two blocks an SM have; 0 leaves it to the compiler.
#pragma unroll (sizeof(T) == 4 ? 1 : 0)
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
