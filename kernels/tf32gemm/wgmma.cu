// wgmma: TF32 by tensor cores that run on their own, fed by TMA.
//
// The one idea it adds to `bcf_dbf`: wgmma. It multiplies TF32 numbers that lie along k only, as A's rows do, and B's do
// not. So C is computed transposed: 64 columns of B come first, from registers, which may have them in any order, and
// the tile of A second, from shared memory. The tensor core cuts the numbers off, as in `bcf_dbf`.
//
//     group 0, 1   multiply: each reads its 64 columns of the tile of B into registers, one step ahead
//     group 2      one thread of it brings tiles, a ring of STAGES ahead
//
// With 256 rows of A a number of B that was read once is multiplied 256 times. Both groups multiply at a time, for one has
// to read while the other multiplies.
//
// A box of B is 32 columns, eight pieces of 16 bytes a row, and two warps share it. Of lane l, r = l / 4 has two
// neighbouring columns: piece 4 (r % 2) + r / 4, two further in every other warp, and of it half r / 2 % 2. Row l % 4 has
// sent its pieces elsewhere by the swizzle, and the 16 lanes of a half-warp meet in no bank. In the end four lanes have
// whole sectors of a row of C.
//
// Template:  BM, BN, BK: the block's tile; STAGES: of the ring; STRIP: tile columns of a strip (include/tile_order.cuh).
// Launch:    384 threads (1-D), a block an SM; dynamic shared memory: the ring (include/tile_ring.cuh).
// Requires:  lda, ldb, ldc multiples of 4; A, B, C 16-byte aligned; sm_90a. Boxes: BM x 32 of A, 32 x 32 of B, swizzled
//            over 128 bytes.

#include "include/epilogue.cuh"
#include "include/tile_order.cuh"
#include "include/tile_ring.cuh"
#include "include/warpgroup.cuh"
#include "include/wgmma_tf32_256.cuh"

template <int BM, int BN, int BK, int STAGES, int STRIP>
__global__ void __launch_bounds__(384, 1)
tf32gemm_wgmma(int m, int n, int k, float alpha, const __grid_constant__ CUtensorMap tma_a,
               const __grid_constant__ CUtensorMap tma_b, float beta, float* C, int ldc) {
    static_assert(BM == 256 && BN == 128 && BK == 32, "two groups with 64 columns each");
    constexpr int CONSUMERS = 2;
    constexpr int STEPS = BK / 8;  // instructions of a step
    const int tiles_m = (m + BM - 1) / BM;
    const int tiles_n = (n + BN - 1) / BN;
    const int steps = (k + BK - 1) / BK;
    auto for_each_tile = [&](auto work) {
        for (int i = blockIdx.x; i < tiles_m * tiles_n; i += gridDim.x) {
            const TileAt tile = tile_at<STRIP>(i, tiles_m, tiles_n);
            work(tile.m * BM, tile.n * BN);
        }
    };
    if (alpha == 0.0f) {
        return for_each_tile([&](int row, int col) { scale_c<BM, BN>(row, col, m, n, beta, C, ldc); });
    }

    extern __shared__ uint8_t memory[];
    const TileRing<float, BM, BN, BK, STAGES> ring(memory);
    if (threadIdx.x == 0) ring.make_barriers(CONSUMERS * 4);  // a lane of each warp gives a stage back
    __syncthreads();

    const int group = threadIdx.x / wgmma::THREADS;
    const int thread = threadIdx.x % wgmma::THREADS;
    const int lane = thread % 32;
    RingPlace<STAGES> place;
    if (group == CONSUMERS) {
        warpgroup::keep_registers<40>();
        if (thread == 0) {
            for_each_tile([&](int row, int col) {
                for (int step = 0; step < steps; ++step, place.advance()) {
                    tma::wait(ring.empty(place.stage), place.parity ^ 1);
                    ring.load(place.stage, tma_a, tma_b, row, col, step * BK);
                }
            });
        }
    } else {
        warpgroup::take_registers<232>();
        const int warp = threadIdx.x / 32;
        const int r = lane / 4;
        const int piece = r % 2 * 4 + warp % 2 * 2 + r / 4;
        const int half = r / 2 % 2;
        const int in_tile = warp / 2 * 32 + piece * 4 + half * 2;  // its first column
        const uint32_t from = (warp / 2 * BK + lane % 4) * wgmma::ROW_BYTES + (piece ^ lane % 4) * 16 + half * 8;

        auto read = [&](uint32_t(&columns)[STEPS][4], int stage) {
#pragma unroll
            for (int p = 0; p < STEPS; ++p) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {  // four rows further, pieces have changed places by four
                    const uint32_t at = (ring.b(stage) + from) ^ (i * 64);
                    const float2 b = ptx::load_shared_2(at + (8 * p + 4 * i) * wgmma::ROW_BYTES);
                    columns[p][2 * i] = __float_as_uint(b.x);
                    columns[p][2 * i + 1] = __float_as_uint(b.y);
                }
            }
        };
        auto give_back = [&](int stage) {
            __syncwarp();
            if (lane == 0) tma::arrive(ring.empty(stage));
        };

        for_each_tile([&](int row, int col) {
            float sum[BM / 2];
            uint32_t columns[2][STEPS][4];  // of this step and of the one before, which may still be multiplied
            int before = 0;
            auto one_step = [&](uint32_t(&mine)[STEPS][4], int step) {
                tma::wait(ring.full(place.stage), place.parity);
                read(mine, place.stage);
                wgmma::hold(mine);
                wgmma::fence();
#pragma unroll
                for (int p = 0; p < STEPS; ++p) {
                    wgmma::multiply_tf32(sum, mine[p], wgmma::rows_along_k<float>(ring.a(place.stage), 8 * p),
                                         step > 0 || p > 0);
                }
                wgmma::commit();
                wgmma::wait<1>();  // the step before
                if (step > 0) give_back(before);
                before = place.stage;
                place.advance();
            };
            int step = 0;
            for (; step + 1 < steps; step += 2) {
                one_step(columns[0], step);
                one_step(columns[1], step + 1);
            }
            if (step < steps) one_step(columns[0], step);
            wgmma::wait<0>();
            wgmma::hold(sum);
            give_back(before);

            const int c_col = col + in_tile;
#pragma unroll
            for (int i = 0; i < BM / 4; ++i) {
                const int c_row = row + i / 2 * 8 + lane % 4 * 2 + i % 2;
                const float pair[2] = {sum[i / 2 * 4 + i % 2], sum[i / 2 * 4 + 2 + i % 2]};
                if (c_row >= m) continue;
                float* c = &C[static_cast<int64_t>(c_row) * ldc + c_col];
                if (c_col + 1 < n) {
                    update_c2(c, alpha, pair, beta);
                } else if (c_col < n) {
                    update_c(c, alpha, pair[0], beta);
                }
            }
        });
    }
}
