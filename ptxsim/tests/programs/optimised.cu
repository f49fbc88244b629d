// Host calls that the compiler moves: in functions that are inlined, and behind a call that never returns here.
#include <cstdlib>
__global__ void copy(float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
static inline float* made(int n) {
    float* p;
    cudaMalloc(&p, n);
    return p;
}
int main() {
    float *x = made(128), *y = made(128);
    copy<<<1, 32>>>(x, y);
    exit(cudaDeviceSynchronize());
}
