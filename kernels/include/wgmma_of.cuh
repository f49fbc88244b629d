// wgmma for a second operand of any width: N is a multiple of 8 up to 256. include/wgmma.cuh has the rest.
//
// The instruction names its registers one by one, N / 2 a thread, so that each N is a text of its own. The lists below
// are made of groups of four, which 8 columns take: list 17 has the registers of N = 136.
#pragma once

#include "include/wgmma.cuh"

namespace wgmma {

#define WGMMA_SUMS_4(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define WGMMA_NAMES_1 "%0, %1, %2, %3"
#define WGMMA_NAMES_2 WGMMA_NAMES_1 ", %4, %5, %6, %7"
#define WGMMA_NAMES_3 WGMMA_NAMES_2 ", %8, %9, %10, %11"
#define WGMMA_NAMES_4 WGMMA_NAMES_3 ", %12, %13, %14, %15"
#define WGMMA_NAMES_5 WGMMA_NAMES_4 ", %16, %17, %18, %19"
#define WGMMA_NAMES_6 WGMMA_NAMES_5 ", %20, %21, %22, %23"
#define WGMMA_NAMES_7 WGMMA_NAMES_6 ", %24, %25, %26, %27"
#define WGMMA_NAMES_8 WGMMA_NAMES_7 ", %28, %29, %30, %31"
#define WGMMA_NAMES_9 WGMMA_NAMES_8 ", %32, %33, %34, %35"
#define WGMMA_NAMES_10 WGMMA_NAMES_9 ", %36, %37, %38, %39"
#define WGMMA_NAMES_11 WGMMA_NAMES_10 ", %40, %41, %42, %43"
#define WGMMA_NAMES_12 WGMMA_NAMES_11 ", %44, %45, %46, %47"
#define WGMMA_NAMES_13 WGMMA_NAMES_12 ", %48, %49, %50, %51"
#define WGMMA_NAMES_14 WGMMA_NAMES_13 ", %52, %53, %54, %55"
#define WGMMA_NAMES_15 WGMMA_NAMES_14 ", %56, %57, %58, %59"
#define WGMMA_NAMES_16 WGMMA_NAMES_15 ", %60, %61, %62, %63"
#define WGMMA_NAMES_17 WGMMA_NAMES_16 ", %64, %65, %66, %67"
#define WGMMA_NAMES_18 WGMMA_NAMES_17 ", %68, %69, %70, %71"
#define WGMMA_NAMES_19 WGMMA_NAMES_18 ", %72, %73, %74, %75"
#define WGMMA_NAMES_20 WGMMA_NAMES_19 ", %76, %77, %78, %79"
#define WGMMA_NAMES_21 WGMMA_NAMES_20 ", %80, %81, %82, %83"
#define WGMMA_NAMES_22 WGMMA_NAMES_21 ", %84, %85, %86, %87"
#define WGMMA_NAMES_23 WGMMA_NAMES_22 ", %88, %89, %90, %91"
#define WGMMA_NAMES_24 WGMMA_NAMES_23 ", %92, %93, %94, %95"
#define WGMMA_NAMES_25 WGMMA_NAMES_24 ", %96, %97, %98, %99"
#define WGMMA_NAMES_26 WGMMA_NAMES_25 ", %100, %101, %102, %103"
#define WGMMA_NAMES_27 WGMMA_NAMES_26 ", %104, %105, %106, %107"
#define WGMMA_NAMES_28 WGMMA_NAMES_27 ", %108, %109, %110, %111"
#define WGMMA_NAMES_29 WGMMA_NAMES_28 ", %112, %113, %114, %115"
#define WGMMA_NAMES_30 WGMMA_NAMES_29 ", %116, %117, %118, %119"
#define WGMMA_NAMES_31 WGMMA_NAMES_30 ", %120, %121, %122, %123"
#define WGMMA_NAMES_32 WGMMA_NAMES_31 ", %124, %125, %126, %127"
#define WGMMA_LIST_1 WGMMA_SUMS_4(0)
#define WGMMA_LIST_2 WGMMA_LIST_1, WGMMA_SUMS_4(4)
#define WGMMA_LIST_3 WGMMA_LIST_2, WGMMA_SUMS_4(8)
#define WGMMA_LIST_4 WGMMA_LIST_3, WGMMA_SUMS_4(12)
#define WGMMA_LIST_5 WGMMA_LIST_4, WGMMA_SUMS_4(16)
#define WGMMA_LIST_6 WGMMA_LIST_5, WGMMA_SUMS_4(20)
#define WGMMA_LIST_7 WGMMA_LIST_6, WGMMA_SUMS_4(24)
#define WGMMA_LIST_8 WGMMA_LIST_7, WGMMA_SUMS_4(28)
#define WGMMA_LIST_9 WGMMA_LIST_8, WGMMA_SUMS_4(32)
#define WGMMA_LIST_10 WGMMA_LIST_9, WGMMA_SUMS_4(36)
#define WGMMA_LIST_11 WGMMA_LIST_10, WGMMA_SUMS_4(40)
#define WGMMA_LIST_12 WGMMA_LIST_11, WGMMA_SUMS_4(44)
#define WGMMA_LIST_13 WGMMA_LIST_12, WGMMA_SUMS_4(48)
#define WGMMA_LIST_14 WGMMA_LIST_13, WGMMA_SUMS_4(52)
#define WGMMA_LIST_15 WGMMA_LIST_14, WGMMA_SUMS_4(56)
#define WGMMA_LIST_16 WGMMA_LIST_15, WGMMA_SUMS_4(60)
#define WGMMA_LIST_17 WGMMA_LIST_16, WGMMA_SUMS_4(64)
#define WGMMA_LIST_18 WGMMA_LIST_17, WGMMA_SUMS_4(68)
#define WGMMA_LIST_19 WGMMA_LIST_18, WGMMA_SUMS_4(72)
#define WGMMA_LIST_20 WGMMA_LIST_19, WGMMA_SUMS_4(76)
#define WGMMA_LIST_21 WGMMA_LIST_20, WGMMA_SUMS_4(80)
#define WGMMA_LIST_22 WGMMA_LIST_21, WGMMA_SUMS_4(84)
#define WGMMA_LIST_23 WGMMA_LIST_22, WGMMA_SUMS_4(88)
#define WGMMA_LIST_24 WGMMA_LIST_23, WGMMA_SUMS_4(92)
#define WGMMA_LIST_25 WGMMA_LIST_24, WGMMA_SUMS_4(96)
#define WGMMA_LIST_26 WGMMA_LIST_25, WGMMA_SUMS_4(100)
#define WGMMA_LIST_27 WGMMA_LIST_26, WGMMA_SUMS_4(104)
#define WGMMA_LIST_28 WGMMA_LIST_27, WGMMA_SUMS_4(108)
#define WGMMA_LIST_29 WGMMA_LIST_28, WGMMA_SUMS_4(112)
#define WGMMA_LIST_30 WGMMA_LIST_29, WGMMA_SUMS_4(116)
#define WGMMA_LIST_31 WGMMA_LIST_30, WGMMA_SUMS_4(120)
#define WGMMA_LIST_32 WGMMA_LIST_31, WGMMA_SUMS_4(124)

// The operands after the registers: both descriptors, `add`, and whether each operand is transposed on its way in.
#define WGMMA_OF_TYPE(LIST, N, TYPE, A, B, ADD, FIRST, SECOND)                                                        \
    asm volatile("{.reg .pred add; setp.ne.b32 add, %" #ADD ", 0;"                                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                                      \
                 " {" WGMMA_NAMES_##LIST "}, %" #A ", %" #B ", add, 1, 1, %" #FIRST ", %" #SECOND ";}"                \
                 : WGMMA_LIST_##LIST                                                                                  \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(FIRST_MN_MAJOR ? 1 : 0), "n"(SECOND_MN_MAJOR ? 1 : 0) \
                 : "memory")
#define WGMMA_OF(LIST, N, ...)                          \
    if constexpr (2 * SUMS == N) {                      \
        if constexpr (__is_same(T, __half)) {           \
            WGMMA_OF_TYPE(LIST, N, "f16", __VA_ARGS__);  \
        } else {                                        \
            WGMMA_OF_TYPE(LIST, N, "bf16", __VA_ARGS__); \
        }                                               \
    }

// sum += first * second, or sum = first * second if not `add`: 64 rows of the first operand, 2 * SUMS columns of the
// second, 16 elements of k. An operand is MN-major if it lies by rows of k, and K-major if k runs along its rows.
template <typename T, bool FIRST_MN_MAJOR, bool SECOND_MN_MAJOR, int SUMS>
__device__ __forceinline__ void mma_of(float (&sum)[SUMS], uint64_t a, uint64_t b, bool add) {
    static_assert(SUMS % 4 == 0 && SUMS <= 128, "a multiple of 8 columns, up to 256");
    WGMMA_OF(1, 8, 4, 5, 6, 7, 8)
    WGMMA_OF(2, 16, 8, 9, 10, 11, 12)
    WGMMA_OF(3, 24, 12, 13, 14, 15, 16)
    WGMMA_OF(4, 32, 16, 17, 18, 19, 20)
    WGMMA_OF(5, 40, 20, 21, 22, 23, 24)
    WGMMA_OF(6, 48, 24, 25, 26, 27, 28)
    WGMMA_OF(7, 56, 28, 29, 30, 31, 32)
    WGMMA_OF(8, 64, 32, 33, 34, 35, 36)
    WGMMA_OF(9, 72, 36, 37, 38, 39, 40)
    WGMMA_OF(10, 80, 40, 41, 42, 43, 44)
    WGMMA_OF(11, 88, 44, 45, 46, 47, 48)
    WGMMA_OF(12, 96, 48, 49, 50, 51, 52)
    WGMMA_OF(13, 104, 52, 53, 54, 55, 56)
    WGMMA_OF(14, 112, 56, 57, 58, 59, 60)
    WGMMA_OF(15, 120, 60, 61, 62, 63, 64)
    WGMMA_OF(16, 128, 64, 65, 66, 67, 68)
    WGMMA_OF(17, 136, 68, 69, 70, 71, 72)
    WGMMA_OF(18, 144, 72, 73, 74, 75, 76)
    WGMMA_OF(19, 152, 76, 77, 78, 79, 80)
    WGMMA_OF(20, 160, 80, 81, 82, 83, 84)
    WGMMA_OF(21, 168, 84, 85, 86, 87, 88)
    WGMMA_OF(22, 176, 88, 89, 90, 91, 92)
    WGMMA_OF(23, 184, 92, 93, 94, 95, 96)
    WGMMA_OF(24, 192, 96, 97, 98, 99, 100)
    WGMMA_OF(25, 200, 100, 101, 102, 103, 104)
    WGMMA_OF(26, 208, 104, 105, 106, 107, 108)
    WGMMA_OF(27, 216, 108, 109, 110, 111, 112)
    WGMMA_OF(28, 224, 112, 113, 114, 115, 116)
    WGMMA_OF(29, 232, 116, 117, 118, 119, 120)
    WGMMA_OF(30, 240, 120, 121, 122, 123, 124)
    WGMMA_OF(31, 248, 124, 125, 126, 127, 128)
    WGMMA_OF(32, 256, 128, 129, 130, 131, 132)
}

#undef WGMMA_OF
#undef WGMMA_OF_TYPE

}  // namespace wgmma
