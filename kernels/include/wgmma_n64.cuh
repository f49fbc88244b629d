// wgmma 64 columns across, for small tiles; include it before include/tile_pipeline.cuh.
#pragma once

#include "include/wgmma.cuh"

namespace wgmma {

// As the others of include/wgmma.cuh.
#define WGMMA_N64(TYPE)                                                                  \
    asm volatile("{.reg .pred add; setp.ne.b32 add, %34, 0;"                             \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE             \
                 " {" WGMMA_REGISTERS_0 "}, %32, %33, add, 1, 1, 0, 1;}"                 \
                 : WGMMA_SUMS_32(0)                                                      \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))                            \
                 : "memory")

template <typename T>
__device__ __forceinline__ void mma(float (&sum)[32], uint64_t a, uint64_t b, bool add) {
    if constexpr (__is_same(T, __half)) {
        WGMMA_N64("f16");
    } else {
        WGMMA_N64("bf16");
    }
}

#undef WGMMA_N64

}  // namespace wgmma
