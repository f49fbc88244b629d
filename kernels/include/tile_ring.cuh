// A ring of STAGES buffers in shared memory, each with the tiles of A and B for one step over k, as wgmma
// wants them (include/wgmma.cuh), and two barriers: `full`, on which TMA reports what has come, and `empty`,
// on which those who multiply say that they have done.
#pragma once

#include "include/ptx.cuh"
#include "include/tma.cuh"
#include "include/wgmma.cuh"

template <typename T, int BM, int BN, int BK, int STAGES>
struct TileRing {
    static constexpr int A_BYTES = BM * BK * sizeof(T);
    static constexpr int B_BYTES = BK * BN * sizeof(T);
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int BOX = wgmma::ROW_BYTES / sizeof(T);  // columns of a box of B
    static_assert(BK * sizeof(T) == wgmma::ROW_BYTES && BN % BOX == 0, "rows of 128 bytes");
    static_assert(BM % 8 == 0 && BK % 8 == 0, "whole atoms");

    uint32_t tiles;

    // The ring in dynamic shared memory that begins at `memory`: 1024 bytes to align it, the tiles, the barriers.
    __device__ __forceinline__ explicit TileRing(const void* memory)
        : tiles((ptx::shared_address(memory) + wgmma::ATOM_BYTES - 1u) & ~(wgmma::ATOM_BYTES - 1u)) {}

    __device__ __forceinline__ uint32_t a(int stage) const { return tiles + stage * STAGE_BYTES; }
    __device__ __forceinline__ uint32_t b(int stage) const { return a(stage) + A_BYTES; }
    __device__ __forceinline__ uint32_t full(int stage) const { return tiles + STAGES * STAGE_BYTES + stage * 8; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return full(STAGES + stage); }
    __device__ __forceinline__ uint32_t end() const { return full(2 * STAGES); }

    // By one thread, before anybody uses the barriers; the block, or cluster, meets afterwards.
    __device__ __forceinline__ void make_barriers(int consumers) const {
        for (int stage = 0; stage < STAGES; ++stage) {
            tma::init(full(stage), 1);
            tma::init(empty(stage), consumers);
        }
        tma::fence_init();
    }

    // By one thread: the tiles of A from row `row` and of B from column `col`, at `k0`.
    __device__ __forceinline__ void load(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b, int row,
                                         int col, int k0) const {
        tma::expect(full(stage), STAGE_BYTES);
        tma::load(a(stage), map_a, row, k0, full(stage));
#pragma unroll
        for (int c = 0; c < BN; c += BOX) {
            tma::load(b(stage) + c / BOX * BK * wgmma::ROW_BYTES, map_b, k0, col + c, full(stage));
        }
    }

    // The same in a cluster of two blocks, one of rows below the other's: each loads its own tile of A, and half of the
    // rows of the tile of B for both. `map_b` has boxes of BK / 2 rows.
    __device__ __forceinline__ void load_shared_b(int stage, const CUtensorMap& map_a, const CUtensorMap& map_b,
                                                  int row, int col, int k0, int rank) const {
        tma::expect(full(stage), STAGE_BYTES);
        tma::load(a(stage), map_a, row, k0, full(stage));
        const int half = rank * (BK / 2);
#pragma unroll
        for (int c = 0; c < BN; c += BOX) {
            tma::load_multicast(b(stage) + (c / BOX * BK + half) * wgmma::ROW_BYTES, map_b, k0 + half, col + c,
                                full(stage), 0b11);
        }
    }

    // By the same thread of a cluster's block, at the end, with the place after its last load: nobody reads a stage or
    // reports on its barriers any more. A block must not end before.
    __device__ __forceinline__ void drain(RingPlace<STAGES>& place) const {
        for (int i = 0; i < STAGES; ++i, place.advance()) tma::wait(empty(place.stage), place.parity ^ 1);
    }

    // By warp group number `group` of those that share a tile: sum += its rows of A * B, or sum = where `first`; it has
    // HEIGHT times 64 rows. One group of wgmma, under way.
    template <int HEIGHT, int REGISTERS>
    __device__ __forceinline__ void multiply(float (&sum)[HEIGHT][REGISTERS], int stage, int group, bool first) const {
        wgmma::fence();
#pragma unroll
        for (int p = 0; p < BK; p += 16) {
#pragma unroll
            for (int h = 0; h < HEIGHT; ++h) {
                const uint32_t rows = a(stage) + (group * HEIGHT + h) * wgmma::ROWS * wgmma::ROW_BYTES;
                wgmma::multiply<T>(sum[h], wgmma::rows_along_k<T>(rows, p), wgmma::rows_along_n<T, BK>(b(stage), p),
                                   !first || p > 0);
            }
        }
        wgmma::commit();
    }

    // By the same: sum = its rows of A * B over so many steps, at least one. One group of wgmma stays under way while the
    // stage before is handed back by `give_back(stage)`. `issued()`: once the last has been issued.
    template <int HEIGHT, int REGISTERS, typename GiveBack, typename Issued>
    __device__ __forceinline__ void multiply_all(float (&sum)[HEIGHT][REGISTERS], RingPlace<STAGES>& place, int group,
                                                 int steps, GiveBack give_back, Issued issued) const {
        int before = 0;
        for (int step = 0; step < steps; ++step, place.advance()) {
            tma::wait(full(place.stage), place.parity);
            multiply(sum, place.stage, group, step == 0);
            wgmma::wait<1>();  // the step before
            if (step > 0) give_back(before);
            before = place.stage;
        }
        issued();
        wgmma::wait<0>();
        give_back(before);
    }

    template <int HEIGHT, int REGISTERS, typename GiveBack>
    __device__ __forceinline__ void multiply_all(float (&sum)[HEIGHT][REGISTERS], RingPlace<STAGES>& place, int group,
                                                 int steps, GiveBack give_back) const {
        multiply_all(sum, place, group, steps, give_back, [] {});
    }
};
