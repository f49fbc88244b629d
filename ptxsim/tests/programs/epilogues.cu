// cublasLtMatmul with epilogues; fp16 products by wmma and by cublasGemmEx, which round alike on a GPU.
#include <cmath>
#include <cstdio>
#include <cublasLt.h>
#include <cuda_fp16.h>
#include <cuda_profiler_api.h>
#include <mma.h>
using namespace nvcuda;

__global__ void product(const half* a, const half* b, float* out, int n) {  // column-major
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + k * n + blockIdx.x * 16, n);
        wmma::load_matrix_sync(fb, b + blockIdx.y * 16 * n + k, n);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(out + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, wmma::mem_col_major);
}

int main() {
    cudaProfilerStart();
    const int m = 8, n = 5, k = 6;
    float *a, *b, *d, *bias, one = 1, zero = 0;
    for (float** p : {&a, &b, &d, &bias}) cudaMallocManaged(p, 256);
    for (int i = 0; i < m * k; ++i) a[i] = i % 7 - 3;
    for (int i = 0; i < k * n; ++i) b[i] = i % 5 * 0.25f - 0.5f;
    for (int i = 0; i < m; ++i) bias[i] = i - 4;
    cublasLtHandle_t handle;
    cublasLtCreate(&handle);
    cublasLtMatrixLayout_t la, lb, ld;
    cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, m, k, m);
    cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, k, n, k);
    cublasLtMatrixLayoutCreate(&ld, CUDA_R_32F, m, n, m);
    int wrong = 0;
    for (auto e : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS}) {
        cublasLtMatmulDesc_t what;
        cublasLtMatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_32F);
        cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e);
        cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
        wrong += cublasLtMatmul(handle, what, &one, a, la, b, lb, &zero, d, ld, d, ld, nullptr, nullptr, 0, 0) != CUBLAS_STATUS_SUCCESS;
        cudaDeviceSynchronize();
        for (int i = 0; i < m * n; ++i) {
            float s = e & 4 ? bias[i % m] : 0;
            for (int x = 0; x < k; ++x) s += a[x * m + i % m] * b[i / m * k + x];
            if (e & 2) s = fmaxf(s, 0);
            if (e & 32) s *= 0.5f * (1 + tanhf(0.7978846f * (s + 0.044715f * s * s * s)));
            wrong += fabsf(d[i] - s) > 1e-5f;
        }
    }
    printf("%d wrong\n", wrong);

    const int size = 64;
    half *x, *y;
    float *p, *q;
    for (half** h : {&x, &y}) cudaMallocManaged(h, size * size * 2);
    for (float** f : {&p, &q}) cudaMallocManaged(f, size * size * 4);
    unsigned state = 1;
    for (half* h : {x, y})
        for (int i = 0; i < size * size; ++i) h[i] = __float2half((int)((state = state * 1664525u + 1013904223u) >> 16) % 1000 / 117.f);
    product<<<dim3(size / 16, size / 16), 32>>>(x, y, p, size);
    cublasHandle_t plain;
    cublasCreate(&plain);
    cublasGemmEx(plain, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, x, CUDA_R_16F, size, y, CUDA_R_16F, size, &zero, q, CUDA_R_32F, size,
                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    cudaDeviceSynchronize();
    int differ = 0;
    for (int i = 0; i < size * size; ++i) differ += p[i] != q[i];
    printf("%d differ\n", differ);
    cudaProfilerStop();
}
