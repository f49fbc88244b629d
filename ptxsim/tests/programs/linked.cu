// One of two files of a program with relocatable device code (-rdc=true).
#include "check.h"

extern __device__ int twice(int x);
extern __constant__ int added[2];

__global__ void apply(int* x) { *x = twice(*x) + added[1]; }

int set_added(int value);

int main() {
    int *x, back = 0, start = 20;
    CHECK(cudaMalloc(&x, sizeof(int)));
    CHECK(cudaMemcpy(x, &start, sizeof(int), cudaMemcpyHostToDevice));
    EXPECT(set_added(2) == 0);
    apply<<<1, 1>>>(x);
    CHECK(cudaMemcpy(&back, x, sizeof(int), cudaMemcpyDeviceToHost));
    printf("%d\n", back);
}
