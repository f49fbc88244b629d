// A transpose by way of shared memory; with PAD = 0 its column reads meet in one bank.
#ifndef PAD
#define PAD 1
#endif
__global__ void transpose(float* to, const float* from, int rows, int columns) {
    __shared__ float tile[32][32 + PAD];
    const int column = blockIdx.x * 32, row = blockIdx.y * 32;
    for (int i = threadIdx.y; i < 32; i += 8) tile[i][threadIdx.x] = from[(row + i) * columns + column + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) to[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
}
