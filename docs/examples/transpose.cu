// Transposes a matrix of whole 32 x 32 tiles by way of shared memory. Each warp reads a row of a tile from global memory
// and writes a row of the transposed tile, so that both are coalesced; in shared memory it goes down a column.
// With PAD = 0 the 32 words of a column lie in one bank; with PAD = 1 each lies in a bank of its own.
#ifndef PAD
#define PAD 0
#endif

__global__ void transpose(float* to, const float* from, int rows, int columns) {
    __shared__ float tile[32][32 + PAD];
    const int x = threadIdx.x, y = threadIdx.y;
    const int column = blockIdx.x * 32, row = blockIdx.y * 32;
    for (int i = 0; i < 32; i += 8)
        tile[y + i][x] = from[(row + y + i) * columns + column + x];
    __syncthreads();
    for (int i = 0; i < 32; i += 8)
        to[(column + y + i) * rows + row + x] = tile[x][y + i];
}
