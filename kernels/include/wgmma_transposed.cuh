// wgmma for C^T = B^T A^T with row-major A and B: the first operand, B^T, is MN-major, the second, A^T, is K-major.
// include/wgmma.cuh has the rest. N, the rows of C that an instruction covers, is any multiple of 16 listed below.
#pragma once

#include "include/wgmma.cuh"

namespace wgmma {

#define WGMMA_REGISTERS_AT_32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_REGISTERS_AT_40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_REGISTERS_AT_48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_REGISTERS_AT_64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_REGISTERS_AT_72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_REGISTERS_AT_80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_REGISTERS_AT_96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_REGISTERS_OF_64 WGMMA_REGISTERS_0
#define WGMMA_REGISTERS_OF_80 WGMMA_REGISTERS_0 ", " WGMMA_REGISTERS_AT_32
#define WGMMA_REGISTERS_OF_112 WGMMA_REGISTERS_OF_80 ", " WGMMA_REGISTERS_AT_40 ", " WGMMA_REGISTERS_AT_48
#define WGMMA_REGISTERS_OF_144 WGMMA_REGISTERS_TO_128 ", " WGMMA_REGISTERS_AT_64
#define WGMMA_REGISTERS_OF_160 WGMMA_REGISTERS_OF_144 ", " WGMMA_REGISTERS_AT_72
#define WGMMA_REGISTERS_OF_176 WGMMA_REGISTERS_OF_160 ", " WGMMA_REGISTERS_AT_80
#define WGMMA_REGISTERS_OF_192 WGMMA_REGISTERS_TO_192
#define WGMMA_REGISTERS_OF_208 WGMMA_REGISTERS_TO_192 ", " WGMMA_REGISTERS_AT_96
#define WGMMA_SUMS_OF_64 WGMMA_SUMS_32(0)
#define WGMMA_SUMS_OF_80 WGMMA_SUMS_32(0), WGMMA_SUMS_8(32)
#define WGMMA_SUMS_OF_112 WGMMA_SUMS_OF_80, WGMMA_SUMS_8(40), WGMMA_SUMS_8(48)
#define WGMMA_SUMS_OF_144 WGMMA_SUMS_TO_128, WGMMA_SUMS_8(64)
#define WGMMA_SUMS_OF_160 WGMMA_SUMS_OF_144, WGMMA_SUMS_8(72)
#define WGMMA_SUMS_OF_176 WGMMA_SUMS_OF_160, WGMMA_SUMS_8(80)
#define WGMMA_SUMS_OF_192 WGMMA_SUMS_TO_192
#define WGMMA_SUMS_OF_208 WGMMA_SUMS_TO_192, WGMMA_SUMS_8(96)

// The last two immediates say that the first operand is MN-major and the second K-major.
#define WGMMA(N, TYPE, A, B, ADD)                                                \
    asm volatile("{.reg .pred add; setp.ne.b32 add, " ADD ", 0;"                 \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE \
                 " {" WGMMA_REGISTERS_OF_##N "}, " A ", " B ", add, 1, 1, 1, 0;}" \
                 : WGMMA_SUMS_OF_##N                                             \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))                    \
                 : "memory")
#define WGMMA_OF_TYPE(N, A, B, ADD)  \
    if constexpr (2 * SUMS == N) {   \
        if constexpr (__is_same(T, __half)) { \
            WGMMA(N, "f16", A, B, ADD); \
        } else {                     \
            WGMMA(N, "bf16", A, B, ADD); \
        }                            \
    }

// sum += B^T A^T, or sum = B^T A^T if not `add`: 64 columns of C, 2 * SUMS rows, 16 elements of k. `a` and `b` describe
// the first and the second operand.
template <typename T, int SUMS>
__device__ __forceinline__ void mma_transposed(float (&sum)[SUMS], uint64_t a, uint64_t b, bool add) {
    static_assert(SUMS == 32 || SUMS == 40 || SUMS == 56 || SUMS == 72 || SUMS == 80 || SUMS == 88 || SUMS == 96 ||
                      SUMS == 104,
                  "add the number of rows to the lists above");
    WGMMA_OF_TYPE(64, "%32", "%33", "%34")
    WGMMA_OF_TYPE(80, "%40", "%41", "%42")
    WGMMA_OF_TYPE(112, "%56", "%57", "%58")
    WGMMA_OF_TYPE(144, "%72", "%73", "%74")
    WGMMA_OF_TYPE(160, "%80", "%81", "%82")
    WGMMA_OF_TYPE(176, "%88", "%89", "%90")
    WGMMA_OF_TYPE(192, "%96", "%97", "%98")
    WGMMA_OF_TYPE(208, "%104", "%105", "%106")
}

#undef WGMMA_OF_TYPE
#undef WGMMA

}  // namespace wgmma
