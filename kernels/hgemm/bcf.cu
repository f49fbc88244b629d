// bcf: no bank conflicts, by a swizzle.
//
// The one idea it adds to `naive`: where an element lies in shared memory. As they come, the rows
// of A's tile are 64 bytes apart and those of B's 256, so the eight rows that one phase of ldmatrix
// reads fall on two groups of four banks (A: 4-way conflicts), or all on one (B: 8-way). Here each
// piece of 16 bytes goes to a place in its row that depends on the row's number, and is read from
// there: eight rows, eight groups of four banks (include/swizzle.cuh).
//
//     banks of the pieces that one   naive    A   0-3, 16-19, 0-3, 16-19, 0-3, ...
//     phase of ldmatrix reads                 B   0-3, 0-3, 0-3, 0-3, ...
//     (eight rows, first column)     bcf      A   0-3, 16-19, 4-7, 20-23, 8-11, 24-27, ...
//                                             B   0-3, 4-7, 8-11, 12-15, ...
//
// The copies do not pay for it: cp.async writes each 128-byte line of its source by itself, and a
// permutation of a line's pieces still meets each bank once. They take two wavefronts where one
// would do in A, swizzled or not, because a row of A's tile is only half a line.
//
// Of 16-bit elements a piece of B is 8, and column c of row r goes to c ^ (r % 8 * 8). TF32 (T = float) has the same
// formula for another reason. A warp reads eight neighbours of four rows of B, by plain loads. The rows are 512 bytes
// apart, so all begin on one bank: 4-way conflicts. With c ^ (r % 4 * 8), four rows meet four groups of eight banks.
// Rows 4-7, the second load, again. The copy keeps its pieces of four words, for bits 0-2 of c stay, within 128 bytes.
//
//         banks of row    naive    bcf
//             r % 4 = 0     0-7     0-7       The text takes the row modulo 8 instead of 4, which
//                     1     0-7    8-15       moves rows 4-7 by a whole line of banks: every word
//                     2     0-7   16-23       stays in its bank. `tf32gemm_bcf_8rows` does that.
//                     3     0-7   24-31
//
// Template:  T: __nv_bfloat16, __half, or float for TF32; BM, BN, BK: the block's tile;
//            SWIZZLED_ROWS: of B: 8; for TF32 4, or 8 as in the text.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb multiples of 16 bytes, ldc of 2 elements; A, B, C
//            16-byte aligned; sm_80 or newer.
// Source:    wingedge_hgemm, section 2 (hgemm_bcf), which gives two swizzles for tf32.
// Run:       make try KERNEL=hgemm_bcf_bf16

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/swizzle.cuh"
#include "include/tile_scheduler.cuh"

template <typename T, int BM, int BN, int BK, int SWIZZLED_ROWS>
__global__ void __launch_bounds__(256, 2)
hgemm_bcf(int m, int n, int k, float alpha, const T* A, int lda, const T* B, int ldb, float beta,
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

    __shared__ alignas(16) T a_tile[BM][BK];  // both swizzled
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
            const int row = load_a_row + i;
            const int col = swizzle<T, BK>(row, load_a_col);
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
        for (int p = 0; p < BK; p += MMA_K) {
            uint32_t a[MMA_M][4], b[MMA_N][2];
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
                // In the order of mma: rows 0-7, then 8-15, of the first half of k; the same of the second.
                const int row = warp_row + i * 16 + lane % 16;
                const int col = swizzle<T, BK>(row, p + lane / 16 * PIECE);
                ptx::ldmatrix_x4(a[i], ptx::shared_address(&a_tile[row][col]));
            }
#pragma unroll
            for (int j = 0; j < MMA_N; ++j) {
                // B is row-major and mma wants columns.
                if constexpr (sizeof(T) == 4) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int row = p + half * 4 + lane % 4;
                        const int col = (warp_col + j * 8 + lane / 4) ^ (row % SWIZZLED_ROWS * 8);
                        b[j][half] = __float_as_uint(b_tile[row][col]);
                    }
                } else {  // .trans; lanes 0-15 give the addresses
                    const int row = p + lane % 16;
                    const int col = (warp_col + j * 8) ^ (row % SWIZZLED_ROWS * 8);
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
