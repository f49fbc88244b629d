// wgmma for TF32 with 256 columns of the second operand; see include/wgmma_tf32.cuh.
#pragma once

#include "include/wgmma_tf32.cuh"

namespace wgmma {

__device__ __forceinline__ void mma_tf32(float (&sum)[128], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile("{.reg .pred add; setp.ne.b32 add, %133, 0;"
                 "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32"
                 " {" WGMMA_REGISTERS_TO_256 "}, {%128, %129, %130, %131}, %132, add, 1, 1;}"
                 : WGMMA_SUMS_TO_256
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add))
                 : "memory");
}

}  // namespace wgmma
