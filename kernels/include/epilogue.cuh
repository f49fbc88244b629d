// The last step of every rung, C = alpha * (A B) + beta * C, for one, two or four neighbouring
// elements. BLAS says that C is not read when beta is zero: it may hold anything then, NaN too, so
// that computing 0 * C would be wrong.
#pragma once

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
