// Three planted faults: a race, a missing fence, an access out of bounds. What they compute is right but for the last.
#include <vector>

#include "check.h"

__global__ void race(int* out) {
    __shared__ int held[64];
    held[threadIdx.x] = threadIdx.x;
    if (threadIdx.x >= 32) __syncwarp();
    out[threadIdx.x] = held[63 - threadIdx.x];  // no barrier before
}

__global__ void missing_fence(int* data, volatile int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 1;
        __syncthreads();
        if (threadIdx.x == 0) *flag = 1;  // no __threadfence() before
    } else {
        while (*flag == 0) {
        }
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];
    }
}

__global__ void out_of_bounds(int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = i;  // one too far
}

int main() {
    int *a, *b, *flag;
    CHECK(cudaMalloc(&a, 96 * sizeof(int)));
    CHECK(cudaMalloc(&b, 96 * sizeof(int)));
    CHECK(cudaMalloc(&flag, sizeof(int)));
    CHECK(cudaMemset(flag, 0, sizeof(int)));
    race<<<1, 64>>>(a);
    CHECK(cudaDeviceSynchronize());
    missing_fence<<<2, 64>>>(a, flag, b);
    CHECK(cudaDeviceSynchronize());
    int back[64];
    CHECK(cudaMemcpy(back, b, sizeof back, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; ++i) EXPECT(back[i] == i + 1);
    out_of_bounds<<<1, 128>>>(a, 96);
    printf("launched: %s\n", cudaGetErrorString(cudaGetLastError()));
    printf("after it: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    printf("later: %s\n", cudaGetErrorString(cudaMalloc(&a, 16)));
}
