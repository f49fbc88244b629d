// A tile of 32 x 32, read by column: PAD = 0 has all 32 words of a column in one bank.
#ifndef PAD
#define PAD 0
#endif
__global__ void columns(float* out, const float* in) {
    __shared__ float tile[32][32 + PAD];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
