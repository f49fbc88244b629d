// A matrix product with shared memory, and its own check against a loop on the CPU.
#include <cmath>
#include <vector>

#include "check.h"

constexpr int TILE = 16;

__global__ void sgemm(int n, const float* a, const float* b, float* c) {
    __shared__ float ta[TILE][TILE], tb[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        ta[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 64;
    size_t bytes = sizeof(float) * n * n;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; ++i) a[i] = (i * 7 % 13) / 13.f, b[i] = (i * 5 % 11) / 11.f;
    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, bytes));
    CHECK(cudaMalloc(&db, bytes));
    CHECK(cudaMalloc(&dc, bytes));
    CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start));
    int times = argc > 2 ? atoi(argv[2]) : 1;
    for (int i = 0; i < times; ++i) sgemm<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(n, da, db, dc);
    CHECK(cudaEventRecord(stop));
    CHECK(cudaGetLastError());
    CHECK(cudaEventSynchronize(stop));
    float ms = -1;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
    double worst = 0;
    for (int y = 0; y < n; ++y)
        for (int x = 0; x < n; ++x) {
            double sum = 0;
            for (int k = 0; k < n; ++k) sum += double(a[y * n + k]) * b[k * n + x];
            worst = fmax(worst, fabs(sum - c[y * n + x]));
        }
    printf("%d x %d, %g ms: %s\n", n, n, ms, worst < 1e-3 ? "PASS" : "FAIL");
    cudaFree(da), cudaFree(db), cudaFree(dc);
    return worst < 1e-3 ? 0 : 1;
}
