// Adds up the elements that a block of 256 threads has. Once one warp is left, the tree goes on without __syncthreads;
// since Volta the threads of a warp need not run in step, so that it needs __syncwarp instead: FIXED has it.
#ifdef FIXED
#define SYNCWARP() __syncwarp()
#else
#define SYNCWARP()
#endif

__global__ void reduce(float* sums, const float* in) {
    __shared__ float part[256];
    const int t = threadIdx.x;
    part[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    for (int distance = 128; distance >= 32; distance /= 2) {
        if (t < distance) part[t] += part[t + distance];
        __syncthreads();
    }
    if (t < 32) {
        for (int distance = 16; distance; distance /= 2) {
            const float other = part[(t + distance) % 32];
            SYNCWARP();
            part[t] += other;
            SYNCWARP();
        }
        if (t == 0) sums[blockIdx.x] = part[0];
    }
}
