// A kernel of its own next to cuBLAS's product, and the other products that have a stand-in.
#include <cublasLt.h>
#include <cublas_v2.h>
#ifndef CUBLAS_API_H_
#error "CUDA's samples ask for this macro"
#endif
static __nv_bfloat16 narrow;  // of cuda_bf16.h, which cublas_v2.h includes

#include <cmath>
#include <vector>

#include "check.h"

#define BLAS(call) EXPECT((call) == CUBLAS_STATUS_SUCCESS)

__global__ void naive(int m, int n, int k, const float* a, const float* b, float* c) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= m) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[y * k + i] * b[i * n + x];
    c[y * n + x] = sum;
}

template <class T>
T* to_device(const std::vector<T>& v) {
    T* p;
    CHECK(cudaMalloc(&p, v.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}
template <class T>
std::vector<T> to_host(const T* p, size_t n) {
    std::vector<T> v(n);
    CHECK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

int main() {
    const int m = 48, n = 40, k = 24;
    std::vector<float> a(m * k), b(k * n), zero(m * n, 0);
    for (size_t i = 0; i < a.size(); ++i) a[i] = int(i * 7 % 13) - 6;
    for (size_t i = 0; i < b.size(); ++i) b[i] = int(i * 5 % 11) - 5;
    float *da = to_device(a), *db = to_device(b), *mine = to_device(zero), *theirs = to_device(zero);
    naive<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(m, n, k, da, db, mine);
    cublasHandle_t handle;
    BLAS(cublasCreate(&handle));
    BLAS(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
    float one = 1, nought = 0;
    // row-major C = A B is column-major C' = B' A'
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, db, n, da, k, &nought, theirs, n));
    auto x = to_host(mine, m * n), y = to_host(theirs, m * n);
    EXPECT(x == y);

    // 2 C: beta, and a transposed operand
    std::vector<float> at(k * m);
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < k; ++j) at[j * m + i] = a[i * k + j];
    float* dat = to_device(at);
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, n, m, k, &one, db, n, dat, m, &one, theirs, n));
    auto z = to_host(theirs, m * n);
    for (int i = 0; i < m * n; ++i) EXPECT(z[i] == 2 * x[i]);

    // halves with sums in float, and in batches
    std::vector<__half> ha(a.size()), hb(b.size()), hc(m * n);
    for (size_t i = 0; i < a.size(); ++i) ha[i] = __float2half(a[i]);
    for (size_t i = 0; i < b.size(); ++i) hb[i] = __float2half(b[i]);
    __half *dha = to_device(ha), *dhb = to_device(hb), *dhc = to_device(hc);
    BLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, dhb, CUDA_R_16F, n, dha, CUDA_R_16F, k, &nought, dhc, CUDA_R_16F, n,
                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    auto h = to_host(dhc, m * n);
    for (int i = 0; i < m * n; ++i) EXPECT(fabs(__half2float(h[i]) - x[i]) <= fabs(x[i]) / 1024);
    const int batch = 3;
    std::vector<float> many(batch * k * n), result(batch * m * n);
    for (size_t i = 0; i < many.size(); ++i) many[i] = b[i % b.size()] * float(1 + i / b.size());
    float *dmany = to_device(many), *dresult = to_device(result);
    BLAS(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, dmany, n, k * n, da, k, 0, &nought, dresult, n, m * n, batch));
    result = to_host(dresult, result.size());
    for (size_t i = 0; i < result.size(); ++i) EXPECT(result[i] == x[i % x.size()] * float(1 + i / x.size()));

    // vectors, every second element of one: u . v, |u|, w = A u, w += 2 u, w *= 3; halves
    std::vector<float> u = {1, 9, 2, 9, 3}, v = {4, 5, 6}, w(4);
    float *du = to_device(u), *dv = to_device(v), *dw = to_device(w), sum, norm, two = 2, three = 3;
    BLAS(cublasSdot(handle, 3, du, 2, dv, 1, &sum));
    BLAS(cublasSnrm2(handle, 3, du, 2, &norm));
    EXPECT(sum == 32 && fabs(norm - sqrt(14.0f)) < 1e-6f);
    float* dm = to_device(std::vector<float>{1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1});  // 4 x 3
    BLAS(cublasSgemv(handle, CUBLAS_OP_N, 4, 3, &one, dm, 4, du, 2, &nought, dw, 1));
    EXPECT((to_host(dw, 4) == std::vector<float>{1, 2, 3, 6}));
    BLAS(cublasSgemv(handle, CUBLAS_OP_T, 4, 3, &one, dm, 4, dw, 1, &one, dv, 1));
    EXPECT((to_host(dv, 3) == std::vector<float>{11, 13, 15}));
    BLAS(cublasSaxpy(handle, 3, &two, du, 2, dw, 1));
    BLAS(cublasSscal(handle, 4, &three, dw, 1));
    BLAS(cublasScopy(handle, 2, dw + 1, 2, du, 1));
    EXPECT((to_host(dw, 4) == std::vector<float>{9, 18, 27, 18}) && (to_host(du, 2) == std::vector<float>{18, 18}));
    BLAS(cublasDotEx(handle, 5, dha, CUDA_R_16F, 1, dha, CUDA_R_16F, 1, &sum, CUDA_R_32F, CUDA_R_32F));
    float squares = 0;
    for (int i = 0; i < 5; ++i) squares += a[i] * a[i];
    EXPECT(sum == squares);
    EXPECT(cublasSscal(handle, 4, &three, dw, -1) == CUBLAS_STATUS_NOT_SUPPORTED);

    // cublasLt, row-major
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t la, lb, lc;
    BLAS(cublasLtCreate(&lt));
    BLAS(cublasLtMatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS(cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, m, k, k));
    BLAS(cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, k, n, n));
    BLAS(cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, m, n, n));
    cublasLtOrder_t row = CUBLASLT_ORDER_ROW;
    for (auto layout : {la, lb, lc}) BLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &row, sizeof row));
    cublasLtMatmulPreference_t preference;
    BLAS(cublasLtMatmulPreferenceCreate(&preference));
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    BLAS(cublasLtMatmulAlgoGetHeuristic(lt, what, la, lb, lc, lc, preference, 1, &found, &count));
    EXPECT(count == 1);
    CHECK(cudaMemset(theirs, 0, m * n * 4));
    BLAS(cublasLtMatmul(lt, what, &one, da, la, db, lb, &nought, theirs, lc, theirs, lc, &found.algo, nullptr, 0, 0));
    EXPECT(to_host(theirs, m * n) == x);
    BLAS(cublasDestroy(handle));
    printf("PASS\n");
}
