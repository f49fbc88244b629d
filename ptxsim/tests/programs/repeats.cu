// Repeats that are written into a program, until time has passed; functions called by pointers that the host hands over;
// memory that is not freed; a lock that one of two blocks lets go without a fence.
#include <cstdio>
typedef float (*Op)(float);
__device__ float half(float x) { return x / 2; }
__device__ float third(float x) { return x / 3; }
__device__ float twice(float x) { return x * 2; }
__device__ Op chosen = twice;
__device__ Op several[2] = {third, half};
__global__ void apply(float* x, Op op) { x[threadIdx.x] = op(x[threadIdx.x]); }
__global__ void apply_at(float* x, int i) { x[threadIdx.x] = several[i](x[threadIdx.x]); }
__global__ void step(float* x) { x[threadIdx.x] += 1; }
__global__ void copy(float* y, const float* x) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void first(int* count, int* who) { if (atomicAdd(count, 1) == 0) *who = threadIdx.x; }
__global__ void take_turns(int* lock, int* x) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *x += 1;
    if (!blockIdx.x) __threadfence();
    atomicExch(lock, 0);
}

int main() {
    float *x, *scratch;
    cudaMallocManaged(&x, 256);
    cudaMalloc(&scratch, 1000);
    for (int i = 0; i < 64; ++i) x[i] = 6;
    Op host[2], one;
    cudaMemcpyFromSymbol(host, several, sizeof host);
    cudaMemcpyFromSymbol(&one, chosen, sizeof one);
    apply<<<1, 32>>>(x, one);
    apply<<<1, 32>>>(x, host[1]);
    apply_at<<<1, 32>>>(x, 0);
    cudaDeviceSynchronize();
    printf("%g\n", x[31]);
    for (int i = 0; i < 5; ++i) step<<<1, 32>>>(x);
    for (int i = 0; i < 2; ++i) step<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    printf("%g %g\n", x[31], x[63]);
    cudaEvent_t a, b;
    cudaEventCreate(&a);
    cudaEventCreate(&b);
    float ms, total = 0;
    int runs = 0;
    do {
        cudaEventRecord(a);
        step<<<1, 32>>>(x);
        cudaEventRecord(b);
        cudaEventSynchronize(b);
        cudaEventElapsedTime(&ms, a, b);
        total += ms;
    } while (++runs < 10000 && total < 5);
    printf("%s\n", runs < 10000 && ms > 0 ? "ended" : "never");
    for (int i = 0; i < 3; ++i) copy<<<1, 32>>>(scratch, x);
    step<<<1, 32>>>(x);
    for (int i = 0; i < 2; ++i) copy<<<1, 32>>>(scratch, x);
    float last;
    cudaMemcpy(&last, scratch, 4, cudaMemcpyDeviceToHost);
    int who, *counts = (int*)scratch;
    cudaMemset(scratch, 0, 16);
    first<<<1, 64>>>(counts + 2, counts + 3);
    cudaMemcpy(&who, counts + 3, 4, cudaMemcpyDeviceToHost);
    printf("%d %d\n", last == x[0], who);
    take_turns<<<2, 1>>>(counts, counts + 1);
    cudaFree(x);
}
