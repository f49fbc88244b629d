// Which tile of C a block computes, where the order of the blocks is to keep L2 warm.
#pragma once

struct TilePlace {
    int m, n;  // in tiles
};

// Along the rows of a strip of so many tile columns, down to its end, then the next strip. The strip's
// part of B is small enough to stay in L2, while A streams by. The last strip is as narrow as what
// is left, so that each tile of any grid is taken once. The grid's x runs over tiles of n, y of m. 0: no
// strips, tile after tile along all of a row.
template <int STRIP = 8>
__device__ __forceinline__ TilePlace tile_in_strips() {
    if constexpr (STRIP == 0) {
        return {static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)};
    } else {
        const int linear = blockIdx.y * gridDim.x + blockIdx.x;
        const int strip = linear / (STRIP * gridDim.y);
        const int in_strip = linear % (STRIP * gridDim.y);
        const int width = min(STRIP, static_cast<int>(gridDim.x) - strip * STRIP);
        return {in_strip / width, strip * STRIP + in_strip % width};
    }
}
