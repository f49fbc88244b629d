// One mma.sync of each shape and type of floating-point numbers, on fragments given as they are: a lane has 4 words of A,
// 2 of B and 4 of C, and writes 4 of D. Which elements those words are does not matter: card and emulator get the same.
#include <cstdint>

#define MMA(NAME, TEXT, ...)                                                          \
    extern "C" __global__ void NAME(uint32_t* out, const uint32_t* in) {              \
        const uint32_t *a = in + threadIdx.x * 10, *b = a + 4, *c = a + 6;            \
        uint32_t d[4] = {};                                                           \
        asm volatile("mma.sync.aligned." TEXT : __VA_ARGS__);                         \
        for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];                  \
    }
#define D2 "=r"(d[0]), "=r"(d[1])
#define D4 D2, "=r"(d[2]), "=r"(d[3])
#define A2 "r"(a[0]), "r"(a[1])
#define A4 A2, "r"(a[2]), "r"(a[3])
#define B1 "r"(b[0])
#define B2 B1, "r"(b[1])
#define C2 "r"(c[0]), "r"(c[1])
#define C4 C2, "r"(c[2]), "r"(c[3])
#define F4_4_2_4 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
#define F4_2_1_4 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
#define F2_4_2_2 "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"

MMA(mma_f16_k16, "m16n8k16.row.col.f32.f16.f16.f32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_f16_k8, "m16n8k8.row.col.f32.f16.f16.f32 " F4_2_1_4, D4 : A2, B1, C4)
MMA(mma_f16_f16, "m16n8k16.row.col.f16.f16.f16.f16 " F2_4_2_2, D2 : A4, B2, C2)
MMA(mma_bf16_k16, "m16n8k16.row.col.f32.bf16.bf16.f32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_bf16_k8, "m16n8k8.row.col.f32.bf16.bf16.f32 " F4_2_1_4, D4 : A2, B1, C4)
MMA(mma_fp8_k32, "m16n8k32.row.col.f32.e4m3.e5m2.f32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_tf32_k8, "m16n8k8.row.col.f32.tf32.tf32.f32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_tf32_k4, "m16n8k4.row.col.f32.tf32.tf32.f32 " F4_2_1_4, D4 : A2, B1, C4)
