// wgmma for TF32, fp32 words of which the tensor core reads the upper 19 bits; see include/wgmma.cuh for the rest.
//
// Both operands must be K-major, for wgmma transposes 16-bit elements only. Here the 64 rows of the first operand come
// from registers, in the fragment layout of mma.sync: for a step of 8 along k, thread t = 32 w + l of the group has
//     a[0], a[1]: rows 16 w + l / 4 and + 8, element l % 4;     a[2], a[3]: the same rows, element l % 4 + 4.
// The second operand comes from shared memory: a K-major tile of N rows (wgmma::descriptor_k_major).
#pragma once

#include "include/wgmma.cuh"

namespace ptx {

// ld.shared.v2: two floats, 8-byte aligned.
__device__ __forceinline__ float2 load_shared_2(uint32_t address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
    return v;
}

}  // namespace ptx

namespace wgmma {

// The same for the words of A, so that they are computed before the next wgmma::fence and not after it.
template <int STEPS>
__device__ __forceinline__ void fence_operand(uint32_t (&a)[STEPS][4]) {
#pragma unroll
    for (int i = 0; i < 4 * STEPS; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

// wgmma.mma_async: sum += A * B, or sum = A * B if not `add`. The words of A must not be overwritten before the wait.
__device__ __forceinline__ void mma_tf32(float (&sum)[64], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile("{.reg .pred add; setp.ne.b32 add, %69, 0;"
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32"
                 " {" WGMMA_REGISTERS_TO_128 "}, {%64, %65, %66, %67}, %68, add, 1, 1;}"
                 : WGMMA_SUMS_TO_128
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add))
                 : "memory");
}

}  // namespace wgmma
