// One kind of shared-memory access, `repeats` times, each thread at the byte offset that `offsets` gives for it: what ncu
// counts, over `repeats`, is how many wavefronts the hardware needs for that pattern. Behind the offsets in shared memory
// stand those in global memory, for the accesses that copy from there.

#include <cstdint>

extern __shared__ __align__(128) unsigned char tile[];

__device__ uint32_t place(const int* offsets) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(tile)) + offsets[threadIdx.x];
}

// The test never holds; it makes the loaded values look used.
__device__ void use(uint32_t value, uint32_t* out) {
    if (value == 0x12345678u) *out = value;
}

#define LOAD(NAME, TEXT, COUNT, ...)                                                               \
    extern "C" __global__ void NAME(const int* offsets, int repeats, const void*, uint32_t* out) { \
        const uint32_t at = place(offsets);                                                        \
        uint32_t all = 0;                                                                          \
        _Pragma("unroll 1") for (int i = 0; i < repeats; ++i) {                                    \
            uint32_t r[COUNT];                                                                     \
            asm volatile(TEXT : __VA_ARGS__ : "r"(at) : "memory");                                 \
            for (int j = 0; j < COUNT; ++j) all ^= r[j];                                           \
        }                                                                                          \
        use(all, out);                                                                             \
    }
#define R1 "=r"(r[0])
#define R2 R1, "=r"(r[1])
#define R4 R2, "=r"(r[2]), "=r"(r[3])

LOAD(ld_32, "ld.volatile.shared.u32 %0, [%1];", 1, R1)
LOAD(ld_64, "ld.volatile.shared.v2.u32 {%0, %1}, [%2];", 2, R2)
LOAD(ld_128, "ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];", 4, R4)
LOAD(ldmatrix_x1, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];", 1, R1)
LOAD(ldmatrix_x2, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];", 2, R2)
LOAD(ldmatrix_x4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];", 4, R4)
LOAD(ldmatrix_x4_trans, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];", 4, R4)

#define STORE(NAME, TEXT)                                                                   \
    extern "C" __global__ void NAME(const int* offsets, int repeats, const void*, uint32_t*) { \
        const uint32_t at = place(offsets);                                                 \
        _Pragma("unroll 1") for (int i = 0; i < repeats; ++i)                               \
            asm volatile(TEXT : : "r"(at), "r"(i) : "memory");                              \
    }

STORE(st_32, "st.shared.u32 [%0], %1;")
STORE(st_64, "st.shared.v2.u32 [%0], {%1, %1};")
STORE(st_128, "st.shared.v4.u32 [%0], {%1, %1, %1, %1};")

#define COPY(NAME, TEXT)                                                                              \
    extern "C" __global__ void NAME(const int* offsets, int repeats, const void* from, uint32_t*) {   \
        const uint32_t at = place(offsets);                                                           \
        const char* source = static_cast<const char*>(from) + offsets[blockDim.x + threadIdx.x];      \
        _Pragma("unroll 1") for (int i = 0; i < repeats; ++i)                                         \
            asm volatile(TEXT : : "r"(at), "l"(source) : "memory");                                   \
        asm volatile("cp.async.wait_all;" ::: "memory");                                              \
    }

COPY(cp_async_ca_4, "cp.async.ca.shared.global [%0], [%1], 4;")
COPY(cp_async_ca_8, "cp.async.ca.shared.global [%0], [%1], 8;")
COPY(cp_async_ca_16, "cp.async.ca.shared.global [%0], [%1], 16;")
COPY(cp_async_cg_16, "cp.async.cg.shared.global [%0], [%1], 16;")
