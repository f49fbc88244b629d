// Which tile of C a block computes. Both schedulers go along the rows of a strip of STRIP tile columns, down to the end
// of the strip, and then on to the next one (a threadblock swizzle). Blocks that run at the same time then share rows
// of A and columns of B: the strip's part of B is small enough to stay in L2 while A streams through. The last strip is
// as narrow as what is left, so that every tile of any grid is computed exactly once.
#pragma once

struct TileCoord {
    int m, n;  // in tiles
};

// For persistent blocks: tile number `index` of tiles_m x tiles_n.
template <int STRIP>
__device__ __forceinline__ TileCoord tile_coord(int index, int tiles_m, int tiles_n) {
    const int strip = index / (STRIP * tiles_m);
    const int in_strip = index % (STRIP * tiles_m);
    const int width = min(STRIP, tiles_n - strip * STRIP);
    return {in_strip / width, strip * STRIP + in_strip % width};
}

// For a grid with a block for each tile, x over tiles of n and y over tiles of m. STRIP = 0: row by row, without
// strips.
template <int STRIP = 8>
__device__ __forceinline__ TileCoord block_tile() {
    if constexpr (STRIP == 0) {
        return {static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x)};
    } else {
        const int index = blockIdx.y * gridDim.x + blockIdx.x;
        const int strip = index / (STRIP * gridDim.y);
        const int in_strip = index % (STRIP * gridDim.y);
        const int width = min(STRIP, static_cast<int>(gridDim.x) - strip * STRIP);
        return {in_strip / width, strip * STRIP + in_strip % width};
    }
}
