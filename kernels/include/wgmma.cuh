// wgmma: a warp group of 128 threads multiplies a 64 x K tile of A by a K x N tile of B, both in shared memory, and
// accumulates in its registers. The instruction is asynchronous: the threads go on, and wait for the sums later.
//
//     wgmma::fence();                                  // earlier writes to the accumulators are ordered before
//     wgmma::mma<T>(sum, a, b);  ...                   // any number of them
//     wgmma::commit();                                 // closes the group
//     wgmma::wait<0>();                                // until at most 0 groups are in flight
//
// A 64-bit descriptor says how a tile lies in shared memory (PTX ISA, "Matrix Descriptor Format"). Here the rows of
// both tiles are 128 bytes, 64 elements of 16 bits or 32 of 32, with the 128-byte swizzle: 16-byte chunk c of row r
// lies at c ^ (r % 8). Eight rows are an atom, 1024 bytes aligned to 1024 bytes. Tiles of A are K-major (rows along k),
// as A lies in global memory. Tiles of B are N-major (rows along n), as B lies there, which wgmma takes for 16-bit
// elements only; such a tile is 64 columns wide, and the next 64 columns are the next tile.
//
// The accumulator fragment of thread t = 32 w + l of the group, for columns 0 .. N - 1:
//     sum[4 j + 2 h + e] is at row 16 w + l / 4 + 8 h, column 8 j + 2 (l % 4) + e.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace wgmma {

constexpr int THREADS = 128;
constexpr int ROWS = 64;        // of A and of the sums
constexpr int ROW_BYTES = 128;  // of a tile in shared memory
constexpr int ATOM_BYTES = 1024;

// wgmma.fence: orders the warp group's earlier accesses to registers and shared memory before the wgmma that follow.
__device__ __forceinline__ void fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// wgmma.commit_group: closes the group of wgmma issued since the last commit.
__device__ __forceinline__ void commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group: waits until at most PENDING groups are in flight.
template <int PENDING>
__device__ __forceinline__ void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(PENDING) : "memory");
}

// No instruction: a fence for the compiler, which must have the sums in their registers here and moves no use of them
// across.
template <int N>
__device__ __forceinline__ void fence_operand(float (&sum)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

// A descriptor: the tile's shared address, the bytes from an atom to the next along the rows (`leading`, of an N-major
// tile) and down the rows (`stride`), and the 128-byte swizzle.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, int leading, int stride) {
    constexpr uint64_t SWIZZLE_128 = 1;
    return (address & 0x3FFFF) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 |
           static_cast<uint64_t>(stride >> 4) << 32 | SWIZZLE_128 << 62;
}

// Of a K-major tile, from element `k0` of its rows on.
template <typename T>
__device__ __forceinline__ uint64_t descriptor_k_major(uint32_t tile, int k0) {
    return descriptor(tile + k0 * sizeof(T), 0, ATOM_BYTES);
}

// Of an N-major tile of B with BK rows, from row `k0` on; the next 64 columns are BK rows further.
template <typename T, int BK>
__device__ __forceinline__ uint64_t descriptor_mn_major(uint32_t tile, int k0) {
    static_assert(sizeof(T) == 2, "wgmma transposes 16-bit elements only");
    return descriptor(tile + k0 * ROW_BYTES, BK * ROW_BYTES, ATOM_BYTES);
}

// wgmma.mma_async: sum += A * B, or sum = A * B if not `add`; fp32 sums, K = 16 elements of 16 bits. The last four
// immediates say that neither operand is negated (1, 1), that A is K-major (0) and that B is N-major (1).
#define WGMMA_REGISTERS_0 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_REGISTERS_32 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_REGISTERS_64 \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_REGISTERS_96 \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_SUMS_8(i) \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), \
    "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define WGMMA_SUMS_32(i) WGMMA_SUMS_8(i), WGMMA_SUMS_8(i + 8), WGMMA_SUMS_8(i + 16), WGMMA_SUMS_8(i + 24)

#define WGMMA_REGISTERS_TO_128 WGMMA_REGISTERS_0 ", " WGMMA_REGISTERS_32
#define WGMMA_REGISTERS_TO_192 WGMMA_REGISTERS_TO_128 ", " WGMMA_REGISTERS_64
#define WGMMA_REGISTERS_TO_256 WGMMA_REGISTERS_TO_192 ", " WGMMA_REGISTERS_96
#define WGMMA_SUMS_TO_128 WGMMA_SUMS_32(0), WGMMA_SUMS_32(32)
#define WGMMA_SUMS_TO_192 WGMMA_SUMS_TO_128, WGMMA_SUMS_32(64)
#define WGMMA_SUMS_TO_256 WGMMA_SUMS_TO_192, WGMMA_SUMS_32(96)

#define WGMMA(N, TYPE, A, B, ADD)                                                              \
    asm volatile("{.reg .pred add; setp.ne.b32 add, " ADD ", 0;"                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE               \
                 " {" WGMMA_REGISTERS_TO_##N "}, " A ", " B ", add, 1, 1, 0, 1;}"              \
                 : WGMMA_SUMS_TO_##N                                                           \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add))                                  \
                 : "memory")

template <typename T>
__device__ __forceinline__ void mma(float (&sum)[64], uint64_t a, uint64_t b, bool add) {
    if constexpr (__is_same(T, __half)) {
        WGMMA(128, "f16", "%64", "%65", "%66");
    } else {
        WGMMA(128, "bf16", "%64", "%65", "%66");
    }
}

template <typename T>
__device__ __forceinline__ void mma(float (&sum)[96], uint64_t a, uint64_t b, bool add) {
    if constexpr (__is_same(T, __half)) {
        WGMMA(192, "f16", "%96", "%97", "%98");
    } else {
        WGMMA(192, "bf16", "%96", "%97", "%98");
    }
}

template <typename T>
__device__ __forceinline__ void mma(float (&sum)[128], uint64_t a, uint64_t b, bool add) {
    if constexpr (__is_same(T, __half)) {
        WGMMA(256, "f16", "%128", "%129", "%130");
    } else {
        WGMMA(256, "bf16", "%128", "%129", "%130");
    }
}

#undef WGMMA

}  // namespace wgmma
