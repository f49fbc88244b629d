// The last step of every rung, C = alpha * (A B) + beta * C, for one, two or four neighbouring
// elements. BLAS says that C is not read when beta is zero: it may hold anything then, NaN too, so
// that computing 0 * C would be wrong. And it says that A and B are not read when alpha is zero. Rungs
// whose loop is all that reads them take k as zero then; the others, and those whose loop ptxas would
// no longer unroll, call `scale_c`.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ void update_c(float* c, float alpha, float product, float beta) {
    float result = alpha * product;
    if (beta != 0.0f) result += beta * *c;
    *c = result;
}

// Four floats through one 128-bit access each way; c is 16-byte aligned.
__device__ __forceinline__ void update_c4(float* c, float alpha, const float* product, float beta) {
    float4 result = make_float4(alpha * product[0], alpha * product[1],
                                alpha * product[2], alpha * product[3]);
    if (beta != 0.0f) {
        const float4 old = *reinterpret_cast<const float4*>(c);
        result.x += beta * old.x;
        result.y += beta * old.y;
        result.z += beta * old.z;
        result.w += beta * old.w;
    }
    *reinterpret_cast<float4*>(c) = result;
}

// Two floats through one 64-bit access each way; c is 8-byte aligned.
__device__ __forceinline__ void update_c2(float* c, float alpha, const float* product, float beta) {
    float2 result = make_float2(alpha * product[0], alpha * product[1]);
    if (beta != 0.0f) {
        const float2 old = *reinterpret_cast<const float2*>(c);
        result.x += beta * old.x;
        result.y += beta * old.y;
    }
    *reinterpret_cast<float2*>(c) = result;
}

// Two 16-bit elements through one 32-bit access each way; c is 4-byte aligned. All arithmetic is in
// fp32, and the result is rounded once.
__device__ __forceinline__ void update_c2(__nv_bfloat16* c, float alpha, const float* product,
                                          float beta) {
    float2 result = make_float2(alpha * product[0], alpha * product[1]);
    if (beta != 0.0f) {
        const float2 old = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(c));
        result.x += beta * old.x;
        result.y += beta * old.y;
    }
    *reinterpret_cast<__nv_bfloat162*>(c) = __float22bfloat162_rn(result);
}

__device__ __forceinline__ void update_c2(__half* c, float alpha, const float* product,
                                          float beta) {
    float2 result = make_float2(alpha * product[0], alpha * product[1]);
    if (beta != 0.0f) {
        const float2 old = __half22float2(*reinterpret_cast<const __half2*>(c));
        result.x += beta * old.x;
        result.y += beta * old.y;
    }
    *reinterpret_cast<__half2*>(c) = __float22half2_rn(result);
}

// One 16-bit element, in the same way.
template <typename T>
__device__ __forceinline__ void update_c(T* c, float alpha, float product, float beta) {
    float result = alpha * product;
    if (beta != 0.0f) result += beta * static_cast<float>(*c);
    *c = static_cast<T>(result);
}

// C = beta * C for the BM x BN of its m x n elements that begin at (row, col): a block's work where alpha
// is zero.
template <int BM, int BN, typename T>
__device__ __forceinline__ void scale_c(int row, int col, int m, int n, float beta, T* C, int ldc) {
#pragma unroll 1
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const int c_row = row + i / BN, c_col = col + i % BN;
        if (c_row < m && c_col < n) {
            update_c(&C[static_cast<int64_t>(c_row) * ldc + c_col], 0.0f, 0.0f, beta);
        }
    }
}
