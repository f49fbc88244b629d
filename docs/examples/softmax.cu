// Softmax of each row of a matrix, a block of 128 threads for each row. The block's largest element is found first, then
// the sum of exponentials, both through one array in shared memory. Between the last read of the one and the first write
// of the other there must be a barrier: FIXED has it.
__device__ float block_reduce(float value, float* partial, bool largest) {
    for (int distance = 16; distance; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, value, distance);
        value = largest ? fmaxf(value, other) : value + other;
    }
#ifdef FIXED
    __syncthreads();  // the last use of `partial` is over
#endif
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int warp = 1; warp < blockDim.x / 32; ++warp)
        value = largest ? fmaxf(value, partial[warp]) : value + partial[warp];
    return value;
}

__global__ void softmax(float* out, const float* in, int columns) {
    __shared__ float partial[4];
    const float* row = in + blockIdx.x * columns;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
    most = block_reduce(most, partial, true);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
    sum = block_reduce(sum, partial, false);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = expf(row[i] - most) / sum;
}
