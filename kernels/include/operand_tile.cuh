// Where an operand of wgmma lies in shared memory, and the boxes that TMA loads it by, for any width.
//
// A tile is WIDTH rows of A or columns of B, a multiple of 8, by 64 elements of k. Rows in shared memory have 128 bytes
// with the 128-byte swizzle, eight of them an atom of 1024 bytes (include/wgmma.cuh). Which way a row runs depends on
// how the matrix lies in global memory:
//
//     K-major: A, column-major B                     MN-major: row-major B
//     a row is 64 elements of k                      a row is 64 columns at one k
//
//               k 0 .. 63                                      columns 0 .. 63    64 .. 127   128 .. 191
//     width 0  +----------+  atom 0                      k 0  +----------------+-----------+-----+.....+
//           8  +----------+  atom 1                           |     box 0      |   box 1   | box | 2   .
//          ..  |          |                                   |                |           |     |     .
//       WIDTH  +----------+                              k 63 +----------------+-----------+-----+.....+
//              :..........:  loaded, not read                                            WIDTH   ^ loaded, not read
//
// SHARING blocks of a cluster need the same tile. Each loads PART rows of it, or of each box, for all of them. All boxes
// of a tensor map have one size, and parts are whole atoms. So 136 rows in two parts are loaded as 2 x 72, and 160 columns
// of row-major B as 3 x 64: what is beyond WIDTH is loaded and not read.
#pragma once

#include "include/tma.cuh"
#include "include/wgmma.cuh"

template <typename T, bool K_MAJOR, int WIDTH, int SHARING>
struct OperandTile {
    static constexpr int BK = wgmma::ROW_BYTES / sizeof(T);
    static constexpr int ATOM_ROWS = wgmma::ATOM_BYTES / wgmma::ROW_BYTES;
    static constexpr int BOXES = K_MAJOR ? 1 : (WIDTH + BK - 1) / BK;  // side by side
    static constexpr int UNIT = ATOM_ROWS * SHARING;
    static constexpr int PART = ((K_MAJOR ? WIDTH : BK) + UNIT - 1) / UNIT * ATOM_ROWS;
    static constexpr int BOX_BYTES = PART * SHARING * wgmma::ROW_BYTES;
    static constexpr int BYTES = BOXES * BOX_BYTES;
    static_assert(sizeof(T) == 2 && WIDTH % 8 == 0 && PART <= 256, "16-bit elements, whole atoms, a box of TMA's");
    static_assert(K_MAJOR || PART * SHARING == BK, "64 rows of k in whole parts");

    // Loads part number `part` of the tile that begins at `first`, for the blocks in the mask; its bytes count on `full`.
    static __device__ __forceinline__ void load(uint32_t tile, const CUtensorMap& map, int first, int k0, int part,
                                                uint32_t full, uint16_t blocks) {
        const int skip = part * PART;
#pragma unroll
        for (int box = 0; box < BOXES; ++box) {
            const uint32_t to = tile + box * BOX_BYTES + skip * wgmma::ROW_BYTES;
            const int row = K_MAJOR ? first + skip : k0 + skip, column = K_MAJOR ? k0 : first + box * BK;
            if constexpr (SHARING == 1) {
                tma::load(to, map, row, column, full);
            } else {
                tma::load_multicast(to, map, row, column, full, blocks);
            }
        }
    }

    // What wgmma reads from element `k` of the tile's 64 on, and from `skip` on of its width: a multiple of 64 if the
    // tile is MN-major, else of 8.
    static __device__ __forceinline__ uint64_t descriptor(uint32_t tile, int skip, int k) {
        if constexpr (K_MAJOR) {
            return wgmma::descriptor_k_major<T>(tile + skip * wgmma::ROW_BYTES, k);
        } else {
            return wgmma::descriptor_mn_major<T, BK>(tile + skip / BK * BOX_BYTES, k);
        }
    }
};
