// wgmma.mma_async for tiles of B of 128, 192 or 256 columns in either layout (include/wgmma.cuh has the rest).
#pragma once

#include "include/wgmma.cuh"

namespace wgmma {

// The last two immediates say that A is K-major, and whether B is transposed on its way in, as it must be if it is
// MN-major.
#define WGMMA(N, TYPE, A, B, ADD, TRANSPOSED)                                                  \
    asm volatile("{.reg .pred add; setp.ne.b32 add, " ADD ", 0;"                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE               \
                 " {" WGMMA_REGISTERS_TO_##N "}, " A ", " B ", add, 1, 1, 0, " TRANSPOSED ";}" \
                 : WGMMA_SUMS_TO_##N                                                           \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(K_MAJOR_B ? 0 : 1)          \
                 : "memory")
#define WGMMA_OF_TYPE(N, A, B, ADD, TRANSPOSED)  \
    if constexpr (__is_same(T, __half)) {        \
        WGMMA(N, "f16", A, B, ADD, TRANSPOSED);  \
    } else {                                     \
        WGMMA(N, "bf16", A, B, ADD, TRANSPOSED); \
    }

// sum += A * B, or sum = A * B if not `add`: 64 rows, 2 * SUMS columns, 16 elements of k.
template <typename T, bool K_MAJOR_B, int SUMS>
__device__ __forceinline__ void mma_wide(float (&sum)[SUMS], uint64_t a, uint64_t b, bool add) {
    static_assert(SUMS == 64 || SUMS == 96 || SUMS == 128, "128, 192 or 256 columns");
    if constexpr (SUMS == 64) {
        WGMMA_OF_TYPE(128, "%64", "%65", "%66", "%67")
    } else if constexpr (SUMS == 96) {
        WGMMA_OF_TYPE(192, "%96", "%97", "%98", "%99")
    } else {
        WGMMA_OF_TYPE(256, "%128", "%129", "%130", "%131")
    }
}

#undef WGMMA_OF_TYPE
#undef WGMMA

}  // namespace wgmma
