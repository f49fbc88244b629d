/* The part of cuBLAS that ptxsim has a stand-in for, for machines without the library's own headers, which come first
   where they are installed. Names and values are those of the documented interface. */
#ifndef CUBLAS_V2_H_
#define CUBLAS_V2_H_
#define CUBLAS_API_H_ /* programs ask for it before they use cublasStatus_t */

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <library_types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cublasContext* cublasHandle_t;

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;

typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3
} cublasMath_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef enum {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_64F_PEDANTIC = 71,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32I_PEDANTIC = 73,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;

#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasSetStream cublasSetStream_v2
#define cublasGetStream cublasGetStream_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasGetPointerMode cublasGetPointerMode_v2
#define cublasSetWorkspace cublasSetWorkspace_v2
#define cublasGetVersion cublasGetVersion_v2
#define cublasSgemm cublasSgemm_v2
#define cublasDgemm cublasDgemm_v2
#define cublasSdot cublasSdot_v2
#define cublasSnrm2 cublasSnrm2_v2
#define cublasSaxpy cublasSaxpy_v2
#define cublasSscal cublasSscal_v2
#define cublasScopy cublasScopy_v2
#define cublasSgemv cublasSgemv_v2
#define cublasDdot cublasDdot_v2
#define cublasDnrm2 cublasDnrm2_v2
#define cublasDaxpy cublasDaxpy_v2
#define cublasDscal cublasDscal_v2
#define cublasDcopy cublasDcopy_v2
#define cublasDgemv cublasDgemv_v2

cublasStatus_t cublasCreate_v2(cublasHandle_t*);
cublasStatus_t cublasDestroy_v2(cublasHandle_t);
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t);
cublasStatus_t cublasGetStream_v2(cublasHandle_t, cudaStream_t*);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t);
cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t*);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);
cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t*);
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t);
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int*);
const char* cublasGetStatusName(cublasStatus_t);
const char* cublasGetStatusString(cublasStatus_t);

#define PTXSIM_GEMM_(name, type)                                                                                        \
    cublasStatus_t name(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const type* alpha,   \
                        const type* a, int lda, const type* b, int ldb, const type* beta, type* c, int ldc);
PTXSIM_GEMM_(cublasSgemm_v2, float)
PTXSIM_GEMM_(cublasDgemm_v2, double)
PTXSIM_GEMM_(cublasHgemm, __half)
#undef PTXSIM_GEMM_
#define PTXSIM_GEMM_(name, type)                                                                                        \
    cublasStatus_t name(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const type* alpha,   \
                        const type* a, int lda, long long stride_a, const type* b, int ldb, long long stride_b,         \
                        const type* beta, type* c, int ldc, long long stride_c, int batch);
PTXSIM_GEMM_(cublasSgemmStridedBatched, float)
PTXSIM_GEMM_(cublasDgemmStridedBatched, double)
PTXSIM_GEMM_(cublasHgemmStridedBatched, __half)
#undef PTXSIM_GEMM_

#define PTXSIM_VECTORS_(S, type)                                                                                        \
    cublasStatus_t cublas##S##dot_v2(cublasHandle_t, int n, const type* x, int incx, const type* y, int incy, type*);   \
    cublasStatus_t cublas##S##nrm2_v2(cublasHandle_t, int n, const type* x, int incx, type*);                           \
    cublasStatus_t cublas##S##axpy_v2(cublasHandle_t, int n, const type* alpha, const type* x, int incx, type*, int);   \
    cublasStatus_t cublas##S##scal_v2(cublasHandle_t, int n, const type* alpha, type* x, int incx);                     \
    cublasStatus_t cublas##S##copy_v2(cublasHandle_t, int n, const type* x, int incx, type* y, int incy);               \
    cublasStatus_t cublas##S##gemv_v2(cublasHandle_t, cublasOperation_t, int m, int n, const type* alpha, const type* a,\
                                      int lda, const type* x, int incx, const type* beta, type* y, int incy);
PTXSIM_VECTORS_(S, float)
PTXSIM_VECTORS_(D, double)
#undef PTXSIM_VECTORS_
cublasStatus_t cublasDotEx(cublasHandle_t, int n, const void* x, cudaDataType, int incx, const void* y, cudaDataType, int incy,
                           void* result, cudaDataType, cudaDataType);

cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b, cudaDataType b_type, int ldb,
                            const void* beta, void* c, cudaDataType c_type, int ldc, cublasComputeType_t, cublasGemmAlgo_t);
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type, int lda,
                                          long long stride_a, const void* b, cudaDataType b_type, int ldb,
                                          long long stride_b, const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int batch, cublasComputeType_t, cublasGemmAlgo_t);
#ifdef __cplusplus
}
#endif
#endif
