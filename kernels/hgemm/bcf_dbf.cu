// bcf_dbf: copy the next tiles while multiplying the present ones.
//
// The one idea it adds to `bcf`: two buffers. cp.async runs by itself, so the copies of the next
// step are started before the present one is multiplied, and waited for after. One barrier a step
// is enough: it says that everybody's copies into this buffer have landed, and that everybody has
// done with the other one, which may now be written.
//
// Timeline:  cp.async    copy 0 to buffer 0 | copy 1 to buffer 1 | copy 2 to buffer 0 | ...
//            all         wait for 0         | multiply 0, wait 1 | multiply 1, wait 2 | multiply 2 ...
//
// NEAREST: for TF32 a tensor core reads an fp32 number without its last 13 bits, so it loses up to
// 2^-10 of itself. With NEAREST, cvt.rna rounds it to the nearest tf32 number before, by up to 2^-11
// up or down. That is a compare and an add for each number, in each warp that reads it.
//
// Template:  T: __nv_bfloat16, __half, or float for TF32; NEAREST: round A and B,
//            for TF32 only; BM, BN, BK: the block's tile.
// Launch:    256 threads (1-D); grid x over tiles of n, y over tiles of m.
// Requires:  m, n, k multiples of BM, BN, BK; lda, ldb multiples of 16 bytes, ldc of 2 elements; A, B, C
//            16-byte aligned; sm_80 or newer.
// Source:    wingedge_hgemm, section 3 (hgemm_bcf_dbf); with TF32, none of the worklogs.
// Run:       make try KERNEL=hgemm_bcf_dbf_bf16

#include "include/epilogue.cuh"
#include "include/ptx.cuh"
#include "include/swizzle.cuh"
#include "include/tile_scheduler.cuh"

template <typename T, bool NEAREST, int BM, int BN, int BK>
__global__ void __launch_bounds__(256, 2)
hgemm_bcf_dbf(int m, int n, int k, float alpha, const T* A, int lda, const T* B, int ldb,
              float beta, T* C, int ldc) {
    if (alpha == 0.0f) return scale_c<BM, BN>(blockIdx.y * BM, blockIdx.x * BN, m, n, beta, C, ldc);

    constexpr int THREADS = 256;
    constexpr int PIECE = 16 / sizeof(T);  // elements that one cp.async copies
    constexpr int MMA_K = 2 * PIECE;       // of k that one mma takes
    constexpr int SWIZZLED_ROWS = sizeof(T) == 4 ? 4 : 8;  // of B, as in `bcf`
    constexpr int WM = BM / 2;  // a warp's tile: 2 x 4 warps
    constexpr int WN = BN / 4;
    constexpr int MMA_M = WM / 16;  // mma instructions along each side of it
    constexpr int MMA_N = WN / 8;
    constexpr int A_ROWS = THREADS / (BK / PIECE);  // rows of the tile of A copied in one pass
    constexpr int B_ROWS = THREADS / (BN / PIECE);
    static_assert(WM % 16 == 0 && WN % 8 == 0 && BK % MMA_K == 0, "tiles made of whole mma shapes");
    static_assert(THREADS % (BK / PIECE) == 0 && THREADS % (BN / PIECE) == 0, "a pass copies whole rows");
    static_assert(!NEAREST || sizeof(T) == 4, "there is nothing to round in 16 bits");
    static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0, "the last pass is a full one");

    __shared__ alignas(16) T a_tile[2][BM][BK];  // both swizzled
    __shared__ alignas(16) T b_tile[2][BK][BN];

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
    A += (tile.m * BM + load_a_row) * lda + load_a_col;
    B += load_b_row * ldb + tile.n * BN + load_b_col;
    C += tile.m * BM * ldc + tile.n * BN;

    // A step over k, in two stages. First: from global to shared memory.
    auto copy = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < BM; i += A_ROWS) {
            const int row = load_a_row + i;
            const int col = swizzle<T, BK>(row, load_a_col);
            ptx::cp_async_16(ptx::shared_address(&a_tile[buffer][row][col]), &A[i * lda]);
        }
#pragma unroll
        for (int i = 0; i < BK; i += B_ROWS) {
            const int row = load_b_row + i;
            const int col = load_b_col ^ (row % SWIZZLED_ROWS * 8);
            ptx::cp_async_16(ptx::shared_address(&b_tile[buffer][row][col]), &B[i * ldb]);
        }
        ptx::cp_async_commit();
        A += BK;
        B += BK * ldb;
    };

    // Second: from shared memory through the tensor cores.
    float sum[MMA_M][MMA_N][4] = {};
    auto multiply = [&](int buffer) {
#pragma unroll
        for (int p = 0; p < BK; p += MMA_K) {
            uint32_t a[MMA_M][4], b[MMA_N][2];
#pragma unroll
            for (int i = 0; i < MMA_M; ++i) {
                // In the order of mma: rows 0-7, then 8-15, of the first half of k; the same of the second.
                const int row = warp_row + i * 16 + lane % 16;
                const int col = swizzle<T, BK>(row, p + lane / 16 * PIECE);
                ptx::ldmatrix_x4(a[i], ptx::shared_address(&a_tile[buffer][row][col]));
            }
#pragma unroll
            for (int j = 0; j < MMA_N; ++j) {
                // B is row-major and mma wants columns.
                if constexpr (sizeof(T) == 4) {
                    const int row = p + lane % 4;
                    const int col = (warp_col + j * 8 + lane / 4) ^ (row % SWIZZLED_ROWS * 8);
                    b[j][0] = __float_as_uint(b_tile[buffer][row][col]);
                    b[j][1] = __float_as_uint(b_tile[buffer][row + 4][col]);
                } else {  // .trans; lanes 0-15 give the addresses
                    const int row = p + lane % 16;
                    const int col = (warp_col + j * 8) ^ (row % SWIZZLED_ROWS * 8);
                    ptx::ldmatrix_x2_trans(b[j], ptx::shared_address(&b_tile[buffer][row][col]));
                }
            }
            if constexpr (NEAREST) {
                for (auto& fragment : a) {
                    for (uint32_t& word : fragment) word = ptx::cvt_rna_tf32(word);
                }
                for (auto& fragment : b) {
                    for (uint32_t& word : fragment) word = ptx::cvt_rna_tf32(word);
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
