// Which tile of C a persistent block computes next.
#pragma once

struct TileAt {
    int m, n;  // in tiles
};

// Number `linear` of the tiles, M down and N across: along the rows of a strip of STRIP tile columns, down to its
// end, then the next strip. Blocks that run at a time then share rows of A and columns of B, which stay in L2.
template <int STRIP>
__device__ __forceinline__ TileAt tile_at(int linear, int M, int N) {
    const int strip = linear / (STRIP * M);
    const int in_strip = linear % (STRIP * M);
    const int width = min(STRIP, N - strip * STRIP);
    return {in_strip / width, strip * STRIP + in_strip % width};
}
