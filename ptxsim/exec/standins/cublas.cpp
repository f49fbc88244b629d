// cuBLAS: the matrix products with which programs compare themselves. Column-major, as documented.
#include <cmath>

#include "gemm.hpp"

using namespace ptxsim;

namespace {
struct Handle {
    void* stream = nullptr;
    int pointer_mode = 0, math_mode = 0, atomics = 0;
    char* scratch = nullptr;  // in device memory: 1 as float and as double, then a result
};

size_t bytes_of(uint32_t type) { return type == R_64F ? 8 : type == R_16F || type == R_16BF ? 2 : 4; }

char* scratch_of(Handle& h) {
    if (h.scratch == nullptr && allocate(24, DEVICE, reinterpret_cast<void**>(&h.scratch)) == OK) {
        const float one = 1;
        const double wide = 1;
        memcpy(alias(h.scratch), &one, 4);
        memcpy(alias(h.scratch + 8), &wide, 8);
    }
    return h.scratch;
}

uint32_t scale_of(uint32_t compute) {  // of cublasComputeType_t, the type of alpha and beta
    switch (compute) {
        case 64: case 65: return R_16F;
        case 70: case 71: return R_64F;
        case 72: case 73: return R_32I;
        default: return R_32F;
    }
}

int gemm(const char* name, void* handle, int ta, int tb, int64_t m, int64_t n, int64_t k, const void* alpha, uint32_t scale,
         const void* a, uint32_t at, int64_t lda, int64_t sa, const void* b, uint32_t bt, int64_t ldb, int64_t sb, const void* beta,
         void* c, uint32_t ct, int64_t ldc, int64_t sc, int64_t batch) {
    if (ready()) return EXECUTION_FAILED;
    if (handle == nullptr) return NOT_INITIALISED;
    if (m < 0 || n < 0 || k < 0 || batch < 0 || !alpha || !beta) {
        note(API_ERROR, "CUBLAS_STATUS_INVALID_VALUE: a negative size, or no alpha or beta");
        return BAD_VALUE;
    }
    auto* h = static_cast<Handle*>(handle);
    if (h->pointer_mode == 0 && (is_device_range(alpha) && !host_may_touch(find(alpha)->kind))) {
        note(API_ERROR, "alpha is in device memory, and the pointer mode is CUBLAS_POINTER_MODE_HOST");
        return BAD_VALUE;
    }
    return multiply({name, h->stream, uint64_t(m), uint64_t(n), uint64_t(k), ta != 0, tb != 0, uint32_t(batch), scalar(alpha, scale), scalar(beta, scale),
                     {a, at, uint64_t(lda), uint64_t(sa)}, {b, bt, uint64_t(ldb), uint64_t(sb)}, {c, ct, uint64_t(ldc), uint64_t(sc)},
                     {c, ct, uint64_t(ldc), uint64_t(sc)}});
}

// A vector is a matrix of one row, whose leading dimension is its increment. D = alpha op(A) op(B) + beta C.
int vectors(const char* name, void* handle, uint64_t m, uint64_t n, uint64_t k, bool ta, bool tb, double alpha, Operand a, Operand b,
            double beta, Operand c, Operand d) {
    if (ready()) return EXECUTION_FAILED;
    if (handle == nullptr) return NOT_INITIALISED;
    for (const Operand& o : {a, b, c, d})
        if (int64_t(o.leading) < 1) {
            note(API_ERROR, "CUBLAS_STATUS_NOT_SUPPORTED: an increment of %lld; those of 1 and more are", (long long)(o.leading));
            return UNSUPPORTED_PRODUCT;
        }
    return multiply({name, static_cast<Handle*>(handle)->stream, m, n, k, ta, tb, 1, alpha, beta, a, b, c, d});
}

int dot(const char* name, void* handle, uint64_t n, Operand x, Operand y, void* result, uint32_t type) {
    if (ready()) return EXECUTION_FAILED;
    if (handle == nullptr) return NOT_INITIALISED;
    auto* h = static_cast<Handle*>(handle);
    Operand to{is_device_range(result) ? result : scratch_of(*h) + 16, type, 1, 0};
    int code = vectors(name, h, 1, 1, n, false, true, 1, x, y, 0, to, to);
    if (code || to.address == result) return code;
    order(STREAM_DONE, h->stream);
    memcpy(result, alias(to.address), bytes_of(type));
    return SUCCESS;
}
}  // namespace

#define CALL PTXSIM_API int
#define GEMM_OF(name, type, kind, index, suffix)                                                                                        \
    CALL name##suffix(void* h, int ta, int tb, index m, index n, index k, const type* alpha, const type* a, index lda, const type* b,   \
                      index ldb, const type* beta, type* c, index ldc) {                                                                \
        PTXSIM_ENTER;                                                                                                                   \
        return gemm(#name, h, ta, tb, m, n, k, alpha, kind, a, kind, lda, 0, b, kind, ldb, 0, beta, c, kind, ldc, 0, 1);                \
    }
#define STRIDED_OF(name, type, kind)                                                                                                    \
    CALL name(void* h, int ta, int tb, int m, int n, int k, const type* alpha, const type* a, int lda, long long sa, const type* b,     \
              int ldb, long long sb, const type* beta, type* c, int ldc, long long sc, int batch) {                                     \
        PTXSIM_ENTER;                                                                                                                   \
        return gemm(#name, h, ta, tb, m, n, k, alpha, kind, a, kind, lda, sa, b, kind, ldb, sb, beta, c, kind, ldc, sc, batch);         \
    }

extern "C" {
CALL cublasCreate_v2(void** out) {
    PTXSIM_ENTER;
    if (ready()) return NOT_INITIALISED;
    *out = new Handle;
    return SUCCESS;
}
CALL cublasDestroy_v2(void* h) {
    PTXSIM_ENTER;
    if (h && static_cast<Handle*>(h)->scratch) release(static_cast<Handle*>(h)->scratch, false);
    delete static_cast<Handle*>(h);
    return SUCCESS;
}
CALL cublasSetStream_v2(void* h, void* s) { static_cast<Handle*>(h)->stream = s; return SUCCESS; }
CALL cublasGetStream_v2(void* h, void** s) { *s = static_cast<Handle*>(h)->stream; return SUCCESS; }
CALL cublasSetPointerMode_v2(void* h, int mode) { static_cast<Handle*>(h)->pointer_mode = mode; return SUCCESS; }
CALL cublasGetPointerMode_v2(void* h, int* mode) { *mode = static_cast<Handle*>(h)->pointer_mode; return SUCCESS; }
CALL cublasSetMathMode(void* h, int mode) { static_cast<Handle*>(h)->math_mode = mode; return SUCCESS; }
CALL cublasGetMathMode(void* h, int* mode) { *mode = static_cast<Handle*>(h)->math_mode; return SUCCESS; }
CALL cublasSetAtomicsMode(void* h, int mode) { static_cast<Handle*>(h)->atomics = mode; return SUCCESS; }
CALL cublasSetWorkspace_v2(void*, void*, size_t) { return SUCCESS; }
CALL cublasGetVersion_v2(void*, int* version) { *version = 130000; return SUCCESS; }
PTXSIM_API size_t cublasGetCudartVersion(void) { return 13000; }
PTXSIM_API const char* cublasGetStatusName(int s) {
    return s == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : s == NOT_INITIALISED ? "CUBLAS_STATUS_NOT_INITIALIZED" : s == BAD_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
         : s == EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
PTXSIM_API const char* cublasGetStatusString(int s) { return cublasGetStatusName(s); }

GEMM_OF(cublasSgemm, float, R_32F, int, _v2)
GEMM_OF(cublasDgemm, double, R_64F, int, _v2)
GEMM_OF(cublasHgemm, uint16_t, R_16F, int, )
GEMM_OF(cublasSgemm, float, R_32F, int64_t, _v2_64)
GEMM_OF(cublasDgemm, double, R_64F, int64_t, _v2_64)
STRIDED_OF(cublasSgemmStridedBatched, float, R_32F)
STRIDED_OF(cublasDgemmStridedBatched, double, R_64F)
STRIDED_OF(cublasHgemmStridedBatched, uint16_t, R_16F)

#define VECTORS_OF(S, type, kind)                                                                                                       \
    CALL cublas##S##dot_v2(void* h, int n, const type* x, int incx, const type* y, int incy, type* result) {                            \
        PTXSIM_ENTER;                                                                                                                   \
        return dot("cublas" #S "dot", h, n, {x, kind, uint64_t(incx), 0}, {y, kind, uint64_t(incy), 0}, result, kind);                  \
    }                                                                                                                                   \
    CALL cublas##S##nrm2_v2(void* h, int n, const type* x, int incx, type* result) {                                                    \
        PTXSIM_ENTER;                                                                                                                   \
        Operand v{x, kind, uint64_t(incx), 0};                                                                                          \
        int code = dot("cublas" #S "nrm2", h, n, v, v, result, kind);                                                                   \
        if (!code) *static_cast<type*>(alias(result)) = std::sqrt(*static_cast<type*>(alias(result)));                                  \
        return code;                                                                                                                    \
    }                                                                                                                                   \
    CALL cublas##S##axpy_v2(void* h, int n, const type* alpha, const type* x, int incx, type* y, int incy) {                            \
        PTXSIM_ENTER;                                                                                                                   \
        if (ready() || !h) return h ? EXECUTION_FAILED : NOT_INITIALISED;                                                               \
        Operand one{scratch_of(*static_cast<Handle*>(h)) + (kind == R_64F ? 8 : 0), kind, 1, 0}, to{y, kind, uint64_t(incy), 0};        \
        return vectors("cublas" #S "axpy", h, 1, n, 1, false, false, scalar(alpha, kind), one, {x, kind, uint64_t(incx), 0}, 1, to, to);\
    }                                                                                                                                   \
    CALL cublas##S##scal_v2(void* h, int n, const type* alpha, type* x, int incx) {                                                     \
        PTXSIM_ENTER;                                                                                                                   \
        Operand v{x, kind, uint64_t(incx), 0};                                                                                          \
        return vectors("cublas" #S "scal", h, 1, n, 0, false, false, 0, v, v, scalar(alpha, kind), v, v);                               \
    }                                                                                                                                   \
    CALL cublas##S##copy_v2(void* h, int n, const type* x, int incx, type* y, int incy) {                                               \
        PTXSIM_ENTER;                                                                                                                   \
        Operand from{x, kind, uint64_t(incx), 0};                                                                                       \
        return vectors("cublas" #S "copy", h, 1, n, 0, false, false, 0, from, from, 1, from, {y, kind, uint64_t(incy), 0});             \
    }                                                                                                                                   \
    CALL cublas##S##gemv_v2(void* h, int transpose, int m, int n, const type* alpha, const type* a, int lda, const type* x, int incx,   \
                            const type* beta, type* y, int incy) {                                                                      \
        PTXSIM_ENTER;                                                                                                                   \
        Operand to{y, kind, uint64_t(incy), 0};                                                                                         \
        return vectors("cublas" #S "gemv", h, 1, transpose ? n : m, transpose ? m : n, false, !transpose, scalar(alpha, kind),          \
                       {x, kind, uint64_t(incx), 0}, {a, kind, uint64_t(lda), 0}, scalar(beta, kind), to, to);                          \
    }
VECTORS_OF(S, float, R_32F)
VECTORS_OF(D, double, R_64F)
CALL cublasDotEx(void* h, int n, const void* x, uint32_t xt, int incx, const void* y, uint32_t yt, int incy, void* result, uint32_t type, int) {
    PTXSIM_ENTER;
    return dot("cublasDotEx", h, n, {x, xt, uint64_t(incx), 0}, {y, yt, uint64_t(incy), 0}, result, type);
}

CALL cublasGemmEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda, const void* b, int bt,
                  int ldb, const void* beta, void* c, int ct, int ldc, int compute, int) {
    PTXSIM_ENTER;
    return gemm("cublasGemmEx", h, ta, tb, m, n, k, alpha, scale_of(uint32_t(compute)), a, uint32_t(at), lda, 0, b, uint32_t(bt), ldb, 0, beta, c,
                uint32_t(ct), ldc, 0, 1);
}
CALL cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda, long long sa,
                                const void* b, int bt, int ldb, long long sb, const void* beta, void* c, int ct, int ldc, long long sc,
                                int batch, int compute, int) {
    PTXSIM_ENTER;
    return gemm("cublasGemmStridedBatchedEx", h, ta, tb, m, n, k, alpha, scale_of(uint32_t(compute)), a, uint32_t(at), lda, sa, b, uint32_t(bt), ldb,
                sb, beta, c, uint32_t(ct), ldc, sc, batch);
}
CALL cublasSgemmEx(void* h, int ta, int tb, int m, int n, int k, const float* alpha, const void* a, int at, int lda, const void* b, int bt,
                   int ldb, const float* beta, void* c, int ct, int ldc) {
    PTXSIM_ENTER;
    return gemm("cublasSgemmEx", h, ta, tb, m, n, k, alpha, R_32F, a, uint32_t(at), lda, 0, b, uint32_t(bt), ldb, 0, beta, c, uint32_t(ct), ldc, 0, 1);
}
}
