// The ring of include/tile_ring.cuh where B is column-major. Rows of both tiles then run along k, as wgmma reads numbers
// of any width without transposing: a tile of B is BN rows like those of A, one box.
#pragma once

#include "include/tile_ring.cuh"

namespace wgmma {

// wgmma.mma_async: sum += A * B, or sum = A * B where not `add`; fp32 sums. Both operands are tiles of rows along k
// (wgmma::rows_along_k); K is 32 bytes of them: 16 elements of 16 bits, or 8 fp32 words, of which the upper 19 bits
// count (TF32).
#define WGMMA_ALONG_K(SHAPE, TYPE, END)                                                    \
    asm volatile("{.reg .pred add; setp.ne.b32 add, %66, 0;"                               \
                 "wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPE "." TYPE               \
                 " {" WGMMA_REGISTERS_TO_128 "}, %64, %65, add, 1, 1" END ";}"             \
                 : WGMMA_SUMS_TO_128                                                       \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))                              \
                 : "memory")

template <typename T>
__device__ __forceinline__ void multiply_along_k(float (&sum)[64], uint64_t a, uint64_t b, bool add) {
    if constexpr (__is_same(T, float)) {
        WGMMA_ALONG_K("m64n128k8", "tf32", "");
    } else if constexpr (__is_same(T, __half)) {
        WGMMA_ALONG_K("m64n128k16", "f16", ", 0, 0");
    } else {
        WGMMA_ALONG_K("m64n128k16", "bf16", ", 0, 0");
    }
}

#undef WGMMA_ALONG_K

}  // namespace wgmma

template <typename T, int BM, int BN, int BK, int STAGES>
struct TileRingAlongK : TileRing<T, BM, BN, BK, STAGES> {
    using Ring = TileRing<T, BM, BN, BK, STAGES>;
    using Ring::Ring;
    static_assert(BN == 128, "one wgmma across");

    // As TileRing::load_shared_b: by one thread of a cluster of two blocks, one of rows below the other's. Each loads
    // its own tile of A, and half of the columns of the tile of B for both. `map_b` has boxes of BN / 2 rows.
    __device__ __forceinline__ void load_shared_b(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                                  int row, int col, int k0, int rank) const {
        tma::expect(this->full(stage), Ring::STAGE_BYTES);
        tma::load(this->a(stage), map_a, row, k0, this->full(stage));
        const int half = rank * (BN / 2);
        tma::load_multicast(this->b(stage) + half * wgmma::ROW_BYTES, map_b, col + half, k0, this->full(stage), 0b11);
    }

    // As TileRing::multiply_all, by a warp group that has a tile of its own.
    template <int HEIGHT, typename GiveBack, typename Issued>
    __device__ __forceinline__ void multiply_all(float (&sum)[HEIGHT][BN / 2], RingPlace<STAGES>& place, int steps,
                                                 GiveBack give_back, Issued issued) const {
        constexpr int K = 32 / sizeof(T);  // of an instruction
        int before = 0;
        for (int step = 0; step < steps; ++step, place.advance()) {
            const int stage = place.stage;
            tma::wait(this->full(stage), place.parity);
            wgmma::fence();
#pragma unroll
            for (int p = 0; p < BK; p += K) {
#pragma unroll
                for (int h = 0; h < HEIGHT; ++h) {
                    const uint32_t rows = this->a(stage) + h * wgmma::ROWS * wgmma::ROW_BYTES;
                    wgmma::multiply_along_k<T>(sum[h], wgmma::rows_along_k<T>(rows, p),
                                               wgmma::rows_along_k<T>(this->b(stage), p), step > 0 || p > 0);
                }
            }
            wgmma::commit();
            wgmma::wait<1>();  // the step before
            if (step > 0) give_back(before);
            before = stage;
        }
        issued();
        wgmma::wait<0>();
        give_back(before);
    }
};
