// wgmma for C^T = B^T A^T with row-major A: the second operand, A^T, is K-major. The first, B^T, is MN-major where B is
// row-major, and K-major where it is column-major. include/wgmma.cuh has the rest. N, the rows of C that an instruction
// covers, is any multiple of 16 listed below.
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
#define WGMMA_REGISTERS_AT_104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_REGISTERS_OF_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_REGISTERS_OF_32 WGMMA_REGISTERS_OF_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_REGISTERS_OF_64 WGMMA_REGISTERS_0
#define WGMMA_REGISTERS_OF_96 WGMMA_REGISTERS_OF_80 ", " WGMMA_REGISTERS_AT_40
#define WGMMA_REGISTERS_OF_128 WGMMA_REGISTERS_TO_128
#define WGMMA_REGISTERS_OF_224 WGMMA_REGISTERS_OF_208 ", " WGMMA_REGISTERS_AT_104
#define WGMMA_REGISTERS_OF_256 WGMMA_REGISTERS_TO_256
#define WGMMA_REGISTERS_OF_80 WGMMA_REGISTERS_0 ", " WGMMA_REGISTERS_AT_32
#define WGMMA_REGISTERS_OF_112 WGMMA_REGISTERS_OF_80 ", " WGMMA_REGISTERS_AT_40 ", " WGMMA_REGISTERS_AT_48
#define WGMMA_REGISTERS_OF_144 WGMMA_REGISTERS_TO_128 ", " WGMMA_REGISTERS_AT_64
#define WGMMA_REGISTERS_OF_160 WGMMA_REGISTERS_OF_144 ", " WGMMA_REGISTERS_AT_72
#define WGMMA_REGISTERS_OF_176 WGMMA_REGISTERS_OF_160 ", " WGMMA_REGISTERS_AT_80
#define WGMMA_REGISTERS_OF_192 WGMMA_REGISTERS_TO_192
#define WGMMA_REGISTERS_OF_208 WGMMA_REGISTERS_TO_192 ", " WGMMA_REGISTERS_AT_96
#define WGMMA_SUMS_OF_16 WGMMA_SUMS_8(0)
#define WGMMA_SUMS_OF_32 WGMMA_SUMS_8(0), WGMMA_SUMS_8(8)
#define WGMMA_SUMS_OF_64 WGMMA_SUMS_32(0)
#define WGMMA_SUMS_OF_96 WGMMA_SUMS_OF_80, WGMMA_SUMS_8(40)
#define WGMMA_SUMS_OF_128 WGMMA_SUMS_TO_128
#define WGMMA_SUMS_OF_224 WGMMA_SUMS_OF_208, WGMMA_SUMS_8(104)
#define WGMMA_SUMS_OF_256 WGMMA_SUMS_TO_256
#define WGMMA_SUMS_OF_80 WGMMA_SUMS_32(0), WGMMA_SUMS_8(32)
#define WGMMA_SUMS_OF_112 WGMMA_SUMS_OF_80, WGMMA_SUMS_8(40), WGMMA_SUMS_8(48)
#define WGMMA_SUMS_OF_144 WGMMA_SUMS_TO_128, WGMMA_SUMS_8(64)
#define WGMMA_SUMS_OF_160 WGMMA_SUMS_OF_144, WGMMA_SUMS_8(72)
#define WGMMA_SUMS_OF_176 WGMMA_SUMS_OF_160, WGMMA_SUMS_8(80)
#define WGMMA_SUMS_OF_192 WGMMA_SUMS_TO_192
#define WGMMA_SUMS_OF_208 WGMMA_SUMS_TO_192, WGMMA_SUMS_8(96)

// The last two immediates say whether the first operand is transposed on its way in, as it must be if it is MN-major, and
// that the second is K-major.
#define WGMMA(N, TYPE, A, B, ADD, TRANSPOSED)                                                    \
    asm volatile("{.reg .pred add; setp.ne.b32 add, " ADD ", 0;"                                 \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                 \
                 " {" WGMMA_REGISTERS_OF_##N "}, " A ", " B ", add, 1, 1, " TRANSPOSED ", 0;}"   \
                 : WGMMA_SUMS_OF_##N                                                             \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(COLUMN_MAJOR_B ? 0 : 1)       \
                 : "memory")
#define WGMMA_OF_TYPE(N, A, B, ADD, TRANSPOSED)     \
    if constexpr (2 * SUMS == N) {                  \
        if constexpr (__is_same(T, __half)) {       \
            WGMMA(N, "f16", A, B, ADD, TRANSPOSED); \
        } else {                                    \
            WGMMA(N, "bf16", A, B, ADD, TRANSPOSED); \
        }                                           \
    }

// sum += B^T A^T, or sum = B^T A^T if not `add`: 64 columns of C, 2 * SUMS rows, 16 elements of k. `a` and `b` describe
// the first and the second operand.
template <typename T, bool COLUMN_MAJOR_B, int SUMS>
__device__ __forceinline__ void mma_transposed(float (&sum)[SUMS], uint64_t a, uint64_t b, bool add) {
    constexpr int ROWS = 2 * SUMS;
    static_assert(ROWS == 16 || ROWS == 32 || ROWS == 64 || ROWS == 80 || ROWS == 96 || ROWS == 112 || ROWS == 128 ||
                      ROWS == 144 || ROWS == 160 || ROWS == 176 || ROWS == 192 || ROWS == 208 || ROWS == 224 || ROWS == 256,
                  "add the number of rows to the lists above");
    WGMMA_OF_TYPE(16, "%8", "%9", "%10", "%11")
    WGMMA_OF_TYPE(32, "%16", "%17", "%18", "%19")
    WGMMA_OF_TYPE(64, "%32", "%33", "%34", "%35")
    WGMMA_OF_TYPE(80, "%40", "%41", "%42", "%43")
    WGMMA_OF_TYPE(96, "%48", "%49", "%50", "%51")
    WGMMA_OF_TYPE(112, "%56", "%57", "%58", "%59")
    WGMMA_OF_TYPE(128, "%64", "%65", "%66", "%67")
    WGMMA_OF_TYPE(144, "%72", "%73", "%74", "%75")
    WGMMA_OF_TYPE(160, "%80", "%81", "%82", "%83")
    WGMMA_OF_TYPE(176, "%88", "%89", "%90", "%91")
    WGMMA_OF_TYPE(192, "%96", "%97", "%98", "%99")
    WGMMA_OF_TYPE(208, "%104", "%105", "%106", "%107")
    WGMMA_OF_TYPE(224, "%112", "%113", "%114", "%115")
    WGMMA_OF_TYPE(256, "%128", "%129", "%130", "%131")
}

#undef WGMMA_OF_TYPE
#undef WGMMA

}  // namespace wgmma
