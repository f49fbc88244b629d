// The loop of a tiled GEMM taken apart: which of its pieces, and how many warps next to each other, make the hardware count
// more shared-memory wavefronts than the addresses of each warp call for. No access here has a bank conflict within its warp.
//
// A step of a warp: ROWS rows of 32 words from global memory to registers, from there (or constants in their place) to its
// rows of the tile, a barrier, READS rows of the tile to registers, a barrier. A kernel has some of these pieces; in those
// without barriers one half of the warps has some and the other half others. Below stand catalogue kernels, in tiles of
// other sizes, too, and one that is wrong on purpose and has no place in the catalogue: it stores no tile of B but the first.

#include <cstdint>

#include "sgemm/at_swizzle.cu"
#include "sgemm/at_swizzle_dbf_rw.cu"
#include "sgemm/blocktile_1d.cu"
#include "sgemm/blocktile_2d.cu"
#include "sgemm/smem_tile.cu"
#include "sgemm/vectorized.cu"
#include "sgemm/warptile.cu"

constexpr int ROWS = 4, READS = 16;
constexpr int LDG = 1, STS = 2, LDS = 4, FED = 8;  // FED: what is stored is what was loaded from global memory

extern __shared__ __align__(128) unsigned char tile[];

template <int WORDS>
struct Row {
    uint32_t word[WORDS];
};

__device__ void get_global(Row<1>& r, const char* at) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(r.word[0]) : "l"(at) : "memory");
}
__device__ void get_global(Row<4>& r, const char* at) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
                 : "l"(at)
                 : "memory");
}
__device__ void get_shared(Row<1>& r, uint32_t at) {
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(r.word[0]) : "r"(at) : "memory");
}
__device__ void get_shared(Row<4>& r, uint32_t at) {
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.word[0]), "=r"(r.word[1]), "=r"(r.word[2]), "=r"(r.word[3])
                 : "r"(at)
                 : "memory");
}
__device__ void put_shared(uint32_t at, const Row<1>& r) {
    asm volatile("st.shared.u32 [%0], %1;" : : "r"(at), "r"(r.word[0]) : "memory");
}
__device__ void put_shared(uint32_t at, const Row<4>& r) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(at), "r"(r.word[0]), "r"(r.word[1]), "r"(r.word[2]), "r"(r.word[3])
                 : "memory");
}

// As many warps as a power of two. `from`: `size` bytes, a power of two; a step begins `stride` bytes after the one before
// (0: the same lines again, which then lie in L1). `sector`: lanes that read consecutive words, 32 or so many that they make
// 32 bytes; the next so many read as much from `PITCH` bytes further. The test at the end never holds; it makes the loaded
// values look used.
template <int FIRST, int SECOND, bool BARRIERS, int WORDS>
__device__ void run(const char* from, uint32_t size, uint32_t stride, uint32_t sector, int steps, uint32_t* out) {
    constexpr uint32_t ROW = 32 * 4 * WORDS, PITCH = 4096;
    const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(tile)) + lane * 4 * WORDS;
    // with eight warps and more, each quarter of the SM has warps of both halves
    const bool second = FIRST != SECOND && (warps < 8 ? warp % 2 : warp / 4 % 2);
    const int pieces = second ? SECOND : FIRST;
    // what does not wait for global memory goes round more often, or it would soon be done
    const int rounds = BARRIERS || (pieces & LDG) ? steps : 8 * steps;
    const uint32_t lines = 32 / sector, row = sector == 32 ? ROW : lines * PITCH;
    uint32_t at = (blockIdx.x * warps + warp) * ROWS * row + lane / sector * PITCH + lane % sector * 4 * WORDS;
    uint32_t all = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        Row<WORDS> data[ROWS];
        for (int i = 0; i < ROWS; ++i) {
            for (int j = 0; j < WORDS; ++j) data[i].word[j] = round;
        }
        if (pieces & LDG) {
            Row<WORDS> loaded[ROWS];
            for (int i = 0; i < ROWS; ++i) get_global(loaded[i], from + ((at + i * row) & (size - 1)));
            for (int i = 0; i < ROWS; ++i) {
                if (pieces & FED) {
                    data[i] = loaded[i];
                } else {
                    all ^= loaded[i].word[0];
                }
            }
            at += stride;
        }
        if (pieces & STS) {
            for (int i = 0; i < ROWS; ++i) put_shared(base + (warp * ROWS + i) * ROW, data[i]);
        }
        if (BARRIERS) __syncthreads();
        if (pieces & LDS) {
            for (int i = 0; i < READS; ++i) {
                Row<WORDS> r;
                get_shared(r, base + ((warp + i) & (warps * ROWS - 1)) * ROW);
                all ^= r.word[0];
            }
        }
        if (BARRIERS) __syncthreads();
    }
    if (all == 0x12345678u) *out = all;
}

#define NAMED(NAME, FIRST, SECOND, BARRIERS, WORDS)                                                        \
    extern "C" __global__ void NAME(const char* from, uint32_t size, uint32_t stride, uint32_t sector,     \
                                    int steps, uint32_t* out) {                                            \
        run<FIRST, SECOND, BARRIERS, WORDS>(from, size, stride, sector, steps, out);                       \
    }
#define KERNEL(NAME, FIRST, SECOND, BARRIERS)      \
    NAMED(NAME##_32, FIRST, SECOND, BARRIERS, 1)   \
    NAMED(NAME##_128, FIRST, SECOND, BARRIERS, 4)

KERNEL(store, STS, STS, true)
KERNEL(store_load, STS | LDS, STS | LDS, true)
KERNEL(copy, LDG | STS | FED, LDG | STS | FED, true)
KERNEL(copy_load, LDG | STS | FED | LDS, LDG | STS | FED | LDS, true)
KERNEL(unfed_store_load, LDG | STS | LDS, LDG | STS | LDS, true)
KERNEL(global_and_load, LDG | LDS, LDG | LDS, true)
KERNEL(store_beside_load, STS, LDS, false)
KERNEL(global_beside_store, LDG, STS, false)
KERNEL(global_beside_load, LDG, LDS, false)
KERNEL(copy_beside_load, LDG | STS | FED, LDS, false)

#define GEMM(NAME, ...)                                                                                            \
    template __global__ void NAME<__VA_ARGS__>(int, int, int, float, const float*, int, const float*, int, float,  \
                                               float*, int);

GEMM(sgemm_blocktile_2d, 64, 32, 8, 8, 8, 0, false)
GEMM(sgemm_blocktile_2d, 64, 64, 8, 8, 8, 0, false)
GEMM(sgemm_blocktile_2d, 128, 64, 8, 8, 8, 0, false)
GEMM(sgemm_blocktile_2d, 128, 128, 8, 8, 8, 0, false)
GEMM(sgemm_vectorized, 64, 32, 8, 8, 8, 0, false)
GEMM(sgemm_vectorized, 64, 64, 8, 8, 8, 0, false)
GEMM(sgemm_vectorized, 128, 64, 8, 8, 8, 0, false)
GEMM(sgemm_vectorized, 128, 128, 8, 8, 8, 0, false)
GEMM(sgemm_warptile, 64, 64, 16, 64, 64, 4, 8, 4, 32)
GEMM(sgemm_warptile, 64, 128, 16, 64, 64, 4, 8, 4, 64)
GEMM(sgemm_warptile, 128, 128, 16, 64, 64, 4, 8, 4, 128)
GEMM(sgemm_at_swizzle, 64, 32, 16, Order::rows)
GEMM(sgemm_at_swizzle, 64, 64, 16, Order::rows)
GEMM(sgemm_at_swizzle, 128, 64, 16, Order::rows)
GEMM(sgemm_at_swizzle, 128, 128, 16, Order::rows)
GEMM(sgemm_at_swizzle, 128, 128, 16, Order::rows, false)
GEMM(sgemm_smem_tile, 32)
GEMM(sgemm_blocktile_1d, 64, 64, 8, 8)
GEMM(sgemm_at_swizzle_dbf_rw, 128, 128, 16, Order::rows, 2)
