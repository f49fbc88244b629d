// The swizzle of a tile in shared memory: accesses down its rows spread over all banks.
#pragma once

// The column that holds element (row, col) of a tile with rows of COLS elements. 16-byte chunks stay whole and aligned;
// they are permuted within each 128 bytes of a row, or within the row if it is shorter.
//
// ldmatrix reads an 8x8 matrix as one chunk from each of eight rows, which should cover the 32 banks, eight chunks. In
// rows of 128 bytes or more, all of them would be in the same four banks; XORing the row's number into the chunk's
// spreads them over all eight groups. Rows of 64 bytes have four chunks and lie two to a line of 32 banks: rows r and r
// + 1 do not conflict to begin with, and XORing r / 2 spreads the four pairs.
//
//     rows of 64 bytes    line 0   r0 c0 c1 c2 c3   r1 c0 c1 c2 c3
//                              1   r2 c1 c0 c3 c2   r3 c1 c0 c3 c2
//                              2   r4 c2 c3 c0 c1   r5 c2 c3 c0 c1
//                              3   r6 c3 c2 c1 c0   r7 c3 c2 c1 c0
template <typename T, int COLS>
__device__ __forceinline__ int swizzle(int row, int col) {
    constexpr int CHUNK = 16 / sizeof(T);
    constexpr int CHUNKS = COLS / CHUNK < 8 ? COLS / CHUNK : 8;  // permuted among themselves
    constexpr int ROWS = 8 / CHUNKS;                             // in a line of 32 banks
    static_assert(COLS % (CHUNKS * CHUNK) == 0 && CHUNKS * ROWS == 8, "rows of 2^n * 16 bytes");
    return col ^ (row / ROWS % CHUNKS * CHUNK);
}
