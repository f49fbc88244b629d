// A rung next to cuBLAS, as a benchmark checks it before it measures.
#include <cublas_v2.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "sgemm/warptile.cu"

int main() {
    const int n = 256;
    std::vector<float> a(n * n), b(n * n), ours(n * n), theirs(n * n);
    for (int i = 0; i < n * n; ++i) a[i] = std::sin(float(i)), b[i] = std::cos(float(i));
    float *da, *db, *dc;
    cudaMalloc(&da, n * n * 4);
    cudaMalloc(&db, n * n * 4);
    cudaMalloc(&dc, n * n * 4);
    cudaMemcpy(da, a.data(), n * n * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), n * n * 4, cudaMemcpyHostToDevice);
    sgemm_warptile<128, 128, 16, 64, 64, 4, 8, 4, 128><<<dim3(n / 128, n / 128), 128>>>(n, n, n, 1.0f, da, n, db, n, 0.0f, dc, n);
    cudaMemcpy(ours.data(), dc, n * n * 4, cudaMemcpyDeviceToHost);

    cublasHandle_t handle;
    cublasCreate(&handle);
    const float one = 1, zero = 0;  // column-major: C' = B' A'
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, db, n, da, n, &zero, dc, n);
    cublasDestroy(handle);
    cudaMemcpy(theirs.data(), dc, n * n * 4, cudaMemcpyDeviceToHost);
    float worst = 0;
    for (int i = 0; i < n * n; ++i) worst = std::fmax(worst, std::fabs(ours[i] - theirs[i]));
    printf("the same as cuBLAS within 1e-3: %s\n", worst < 1e-3f ? "yes" : "no");
    return worst < 1e-3f ? 0 : 1;
}
