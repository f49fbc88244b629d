// bcf_dbf_rw: C in whole lines, by way of shared memory.
//
// The one idea it adds to `bcf_dbf`: the tile of C takes the state of the tiles of A and B, which
// nobody needs after the last step. A lane's sums are pairs of neighbours, and four lanes together
// have 16 bytes of a row, half a sector. So the pairs meet in shared memory, and from there threads
// move 16 bytes each, a warp two rows of 256. Where beta is not zero, the old C comes the same way:
// into the tile, updated there, and out again, so the result is rounded once.
//
//     one store of a warp     bcf_dbf                      bcf_dbf_rw
//     to global memory        8 rows x 16 bytes            2 rows x 256 bytes
//                             | t0 t1 t2 t3 |              | t0 | t1 |  ...   | t15 |
//                             | t4 t5 t6 t7 |  ...         | t16 | t17 | ...  | t31 |
//
// The rows of this tile are 256 bytes as well, and swizzled like those of B: the eight rows that a
// warp writes at once, 16 bytes in each, fall on eight groups of four banks.
//
// Where ours differ from the text's kernels: these have no launch bounds (nvcc 13.0 keeps to two blocks
// an SM without), and strips that need a grid as wide as a multiple of eight; ours take any.
//
// Template:  T: __nv_bfloat16 or __half; BM, BN, BK: the block's tile; STRIP: tile columns of a strip
//            (include/tile_scheduler.cuh), 0 for blocks row by row.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb, ldc multiples of 8; A, B, C 16-byte
//            aligned; sm_80 or newer.
// Source:    wingedge_hgemm, section 4 (hgemm_bcf_dbf_rw).
// Run:       make try KERNEL=hgemm_bcf_dbf_rw_bf16

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/swizzle.cuh"
#include "include/tile_scheduler.cuh"

template <typename T, int BM, int BN, int BK, int STRIP>
__global__ void __launch_bounds__(256, 2)
hgemm_bcf_dbf_rw(int m, int n, int k, float alpha, const T* A, int lda, const T* B, int ldb,
                 float beta, T* C, int ldc) {
    if (alpha == 0.0f) return scale_c<BM, BN>(blockIdx.y * BM, blockIdx.x * BN, m, n, beta, C, ldc);

    constexpr int THREADS = 256;
    constexpr int WM = BM / 2;  // a warp's tile: 2 x 4 warps
    constexpr int WN = BN / 4;
    constexpr int MMA_M = WM / 16;  // mma instructions along each side of it
    constexpr int MMA_N = WN / 8;
    constexpr int A_ROWS = THREADS / (BK / 8);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / 8);
    static_assert(WM % 16 == 0 && WN % 8 == 0 && BK % 16 == 0, "tiles made of whole mma shapes");
    static_assert(THREADS % (BK / 8) == 0 && THREADS % (BN / 8) == 0, "a pass copies whole rows");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");

    __shared__ alignas(16) union {
        struct {
            T a[2][BM][BK], b[2][BK][BN];
        } in;
        T out[BM][BN];
    } tiles;  // all swizzled

    // The eight elements that this thread copies (in the first pass).
    const int load_a_row = threadIdx.x / (BK / 8);
    const int load_a_col = threadIdx.x % (BK / 8) * 8;
    const int load_b_row = threadIdx.x / (BN / 8);
    const int load_b_col = threadIdx.x % (BN / 8) * 8;

    // The upper left corner of its warp's tile.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int warp_row = warp / 4 * WM;
    const int warp_col = warp % 4 * WN;

    const TileCoord tile = block_tile<STRIP>();
    A += (tile.m * BM + load_a_row) * lda + load_a_col;
    B += load_b_row * ldb + tile.n * BN + load_b_col;
    C += tile.m * BM * ldc + tile.n * BN;

    // A step over k, in two stages. First: from global to shared memory.
    auto copy = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < BM; i += A_ROWS) {
            const int row = load_a_row + i;
            const int col = swizzle<T, BK>(row, load_a_col);
            ptx::cp_async_16(ptx::shared_address(&tiles.in.a[buffer][row][col]), &A[i * lda]);
        }
#pragma unroll
        for (int i = 0; i < BK; i += B_ROWS) {
            const int row = load_b_row + i;
            const int col = swizzle<T, BN>(row, load_b_col);
            ptx::cp_async_16(ptx::shared_address(&tiles.in.b[buffer][row][col]), &B[i * ldb]);
        }
        ptx::cp_async_commit();
        A += BK;
        B += BK * ldb;
    };

    // Second: from shared memory through the tensor cores.
    float sum[MMA_M][MMA_N][4] = {};
    auto multiply = [&](int buffer) {
#pragma unroll
        for (int p = 0; p < BK; p += 16) {
            uint32_t a[MMA_M][4], b[MMA_N][2];
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
                // In the order of mma: rows 0-7, then 8-15, of columns 0-7; the same of 8-15.
                const int row = warp_row + i * 16 + lane % 16;
                const int col = swizzle<T, BK>(row, p + lane / 16 * 8);
                ptx::ldmatrix_x4(a[i], ptx::shared_address(&tiles.in.a[buffer][row][col]));
            }
#pragma unroll
            for (int j = 0; j < MMA_N; ++j) {
                // Lanes 0-15 give the addresses. B is row-major and mma wants columns: .trans
                const int row = p + lane % 16;
                const int col = swizzle<T, BN>(row, warp_col + j * 8);
                ptx::ldmatrix_x2_trans(b[j], ptx::shared_address(&tiles.in.b[buffer][row][col]));
            }
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
#pragma unroll
                for (int j = 0; j < MMA_N; ++j) {
                    ptx::mma_m16n8k16<T>(sum[i][j], a[i], b[j]);
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

    // All of C's tile, 16 bytes a thread and pass, in the direction that `move` says.
    auto for_each_piece = [&](auto move) {
#pragma unroll
        for (int i = 0; i < BM; i += B_ROWS) {
            const int row = load_b_row + i;
            const int col = swizzle<T, BN>(row, load_b_col);
            move(reinterpret_cast<uint4*>(&tiles.out[row][col]),
                 reinterpret_cast<uint4*>(&C[row * ldc + load_b_col]));
        }
    };
    __syncthreads();  // nobody needs the tiles of A and B any more
    if (beta != 0.0f) {
        for_each_piece([](uint4* shared, const uint4* global) { *shared = *global; });
        __syncthreads();
    }

    // A lane's four sums of an mma: two neighbours in one row, two more eight rows below.
#pragma unroll
    for (int i = 0; i < MMA_M; ++i) {
#pragma unroll
        for (int j = 0; j < MMA_N; ++j) {
            const int row = warp_row + i * 16 + lane / 4;
            const int col = swizzle<T, BN>(row, warp_col + j * 8 + lane % 4 * 2);
            update_c2(&tiles.out[row][col], alpha, &sum[i][j][0], beta);
            update_c2(&tiles.out[row + 8][col], alpha, &sum[i][j][2], beta);
        }
    }
    __syncthreads();
    for_each_piece([](const uint4* shared, uint4* global) { *global = *shared; });
}
