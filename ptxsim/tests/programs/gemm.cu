#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(3); } } while (0)
__global__ void sgemm(int n, const float* a, const float* b, float* c) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    __shared__ float ta[16][16], tb[16][16];
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        ta[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}
int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 64;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; ++i) { a[i] = (i * 7 % 13) / 13.f; b[i] = (i * 5 % 11) / 11.f; }
    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, a.size() * 4)); CHECK(cudaMalloc(&db, b.size() * 4)); CHECK(cudaMalloc(&dc, c.size() * 4));
    CHECK(cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice));
    sgemm<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(n, da, db, dc);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost));
    double worst = 0;
    for (int y = 0; y < n; ++y) for (int x = 0; x < n; ++x) {
        double s = 0; for (int k = 0; k < n; ++k) s += (double)a[y * n + k] * b[k * n + x];
        worst = fmax(worst, fabs(s - c[y * n + x]));
    }
    printf("largest difference %g: %s\n", worst, worst < 1e-3 ? "PASS" : "FAIL");
    cudaFree(da); cudaFree(db); cudaFree(dc);
    return worst < 1e-3 ? 0 : 1;
}
