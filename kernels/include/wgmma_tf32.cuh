// wgmma of TF32 numbers, fp32 words of which the upper 19 bits count; see include/wgmma.cuh for the rest.
//
// Both operands lie along k: wgmma transposes 16-bit elements only. Here the 64 rows of the first come from registers, in
// the order of mma.sync; thread t = 32 w + l of the group has, of a step of 8 along k,
//     a[0], a[1]: rows 16 w + l / 4 and 8 further, element l % 4;     a[2], a[3]: the same rows, element l % 4 + 4.
// The second comes from shared memory: a tile of N rows along k, as wgmma::rows_along_k describes it.
#pragma once

#include "include/wgmma.cuh"

namespace ptx {

// ld.shared: two floats, 8-byte aligned.
__device__ __forceinline__ float2 load_shared_2(uint32_t address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
    return v;
}

}  // namespace ptx

namespace wgmma {

// No instruction: as for sums, so that words of A are made before the fence that comes next, not after it.
template <int STEPS>
__device__ __forceinline__ void hold(uint32_t (&a)[STEPS][4]) {
#pragma unroll
    for (int i = 0; i < 4 * STEPS; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

// wgmma.mma_async: sum += A * B, or sum = A * B where not `add`. The words of A may not be written to before the wait.
__device__ __forceinline__ void multiply_tf32(float (&sum)[64], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile("{.reg .pred add; setp.ne.b32 add, %69, 0;"
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32"
                 " {" WGMMA_REGISTERS_TO_128 "}, {%64, %65, %66, %67}, %68, add, 1, 1;}"
                 : WGMMA_SUMS_TO_128
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add))
                 : "memory");
}

}  // namespace wgmma
