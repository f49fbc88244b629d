// bcf: no bank conflicts, by two swizzles.
//
// The one idea it adds to `naive`: where an element lies in shared memory, so that what a warp
// reads at once meets all banks.
//
//   - A is read as in hgemm/bcf.cu, by pieces of 16 bytes in rows of 64: the same swizzle.
//   - Of B, a warp reads eight neighbours of four rows. The rows are 512 bytes apart, so all begin
//     on one bank: 4-way conflicts. Column c of row r goes to c ^ (r % 4 * 8): four rows, four
//     groups of eight banks. Rows 4-7, the second load, again.
//
//         banks of row    naive    bcf        The copy keeps its pieces of four words: the swizzle
//             r % 4 = 0     0-7     0-7       leaves bits 0-2 of c alone. And it keeps them within
//                     1     0-7    8-15       their 128 bytes, which cp.async writes at once.
//                     2     0-7   16-23
//                     3     0-7   24-31
//
// The text takes the row modulo 8 instead of 4, which moves rows 4-7 by a whole line of banks: every word
// stays in its bank. `tf32gemm_bcf_8rows` does that.
//
// Template:  BM, BN, BK: the block's tile; SWIZZLED_ROWS: 4, or 8 as in the text.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb multiples of 4, ldc of 2; A, B, C 16-byte
//            aligned; sm_80 or newer.
// Source:    wingedge_hgemm, section 2, which gives two swizzles for tf32.

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/swizzle.cuh"
#include "include/tile_scheduler.cuh"

template <int BM, int BN, int BK, int SWIZZLED_ROWS>
__global__ void __launch_bounds__(256, 2)
tf32gemm_bcf(int m, int n, int k, float alpha, const float* A, int lda, const float* B, int ldb,
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

    __shared__ alignas(16) float a_tile[BM][BK];  // both swizzled
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
            const int row = load_a_row + i;
            const int col = swizzle<float, BK>(row, load_a_col);
            ptx::cp_async_16(ptx::shared_address(&a_tile[row][col]), &A[i * lda]);
        }
#pragma unroll
        for (int i = 0; i < BK; i += B_ROWS) {
            const int row = load_b_row + i;
            const int col = load_b_col ^ (row % SWIZZLED_ROWS * 8);
            ptx::cp_async_16(ptx::shared_address(&b_tile[row][col]), &B[i * ldb]);
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
                const int col = swizzle<float, BK>(row, p + lane / 16 * 4);
                ptx::ldmatrix_x4(a[i], ptx::shared_address(&a_tile[row][col]));
            }
#pragma unroll
            for (int j = 0; j < MMA_N; ++j) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int row = p + half * 4 + lane % 4;
                    const int col = (warp_col + j * 8 + lane / 4) ^ (row % SWIZZLED_ROWS * 8);
                    b[j][half] = __float_as_uint(b_tile[row][col]);
                }
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
