// Two kernels with two faults each: a device survives those of the first, and ends the second.
#include "check.h"

__global__ void survived(int* out, const int* in) {
    __shared__ int held[64];
    held[threadIdx.x] = threadIdx.x;
    int other = held[63 - threadIdx.x];  // no barrier before
    out[threadIdx.x] = in[threadIdx.x] < 0 ? 0 : other;  // nobody wrote `in`
}

__global__ void fatal(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int held[64];
    if (i <= n) out[i] = i;  // one too far
    held[threadIdx.x] = i;
    if (threadIdx.x == 1 && held[40] < 0) out[1] = 0;  // no barrier before
}

int main() {
    int *a, *b, back[64];
    CHECK(cudaMalloc(&a, sizeof back));
    CHECK(cudaMalloc(&b, sizeof back));
    survived<<<1, 64>>>(a, b);
    CHECK(cudaMemcpy(back, a, sizeof back, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; ++i) EXPECT(back[i] == 63 - i);
    fatal<<<2, 64>>>(a, 64);
    printf("fatal: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
