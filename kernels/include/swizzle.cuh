// Where the elements of a shared-memory tile lie, so that accesses down its rows meet all banks.
#pragma once

// The column that holds element (row, col) of a tile with rows of COLS elements. Pieces of 16 bytes
// stay whole and aligned; within each 128 bytes of a row (or a shorter row) they change places.
//
// An 8x8 matrix of ldmatrix is one piece from each of eight rows, which should fall on the eight
// pieces of a line of all 32 banks. In rows of 128 bytes or more, all would fall on one; the row's
// number, XORed into the piece's, sends them to eight. In rows of 64 bytes a line holds two rows of
// four pieces: rows r and r + 1 differ as they are, and r / 2 sends four pairs to four places.
//
//     rows of 64 bytes    line 0   r0 p0 p1 p2 p3   r1 p0 p1 p2 p3
//                              1   r2 p1 p0 p3 p2   r3 p1 p0 p3 p2
//                              2   r4 p2 p3 p0 p1   r5 p2 p3 p0 p1
//                              3   r6 p3 p2 p1 p0   r7 p3 p2 p1 p0
template <typename T, int COLS>
__device__ __forceinline__ int swizzle(int row, int col) {
    constexpr int PIECE = 16 / sizeof(T);
    constexpr int PIECES = COLS / PIECE < 8 ? COLS / PIECE : 8;  // that change places
    constexpr int ROWS = 8 / PIECES;                             // in one line of the banks
    static_assert(COLS % (PIECES * PIECE) == 0 && PIECES * ROWS == 8, "rows of 2^n * 16 bytes");
    return col ^ (row / ROWS % PIECES * PIECE);
}
