// What the device can do at most: loops of nothing but FFMA, mma.sync or wgmma, and a copy. Each thread's result is
// stored behind a test that the compiler cannot decide, so that the work stays.

#include <cuda_bf16.h>
#include <cstdint>

#include "include/ptx.cuh"

// 16 independent chains a thread cover the FMA's latency at 16 warps an SM and more.
extern "C" __global__ void __launch_bounds__(1024, 1) ceiling_ffma(int steps, float x, float* out) {
    float sum[16];
    for (int i = 0; i < 16; ++i) sum[i] = threadIdx.x + i;
#pragma unroll 8
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int i = 0; i < 16; ++i) sum[i] = fmaf(sum[i], x, x);
    float all = 0.f;
    for (int i = 0; i < 16; ++i) all += sum[i];
    if (all == 1.2345f) out[threadIdx.x] = all;
}

// Eight accumulator tiles a warp.
extern "C" __global__ void __launch_bounds__(512, 1) ceiling_mma_bf16(int steps, uint32_t bits, float* out) {
    float sum[8][4] = {};
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = bits * (threadIdx.x + i + 1);  // bits = 0x10001 * small: finite bf16 pairs
    for (int i = 0; i < 2; ++i) b[i] = bits * (threadIdx.x + i + 5);
#pragma unroll 4
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int i = 0; i < 8; ++i) ptx::mma_m16n8k16<__nv_bfloat16>(sum[i], a, b);
    float all = 0.f;
    for (int i = 0; i < 8; ++i) all += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
    if (all == 1.2345f) out[threadIdx.x] = all;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// wgmma m64n256k16 with both operands in shared memory, four k-steps a commit: what cuBLAS's Hopper kernels use.
// Two warpgroups an SM. The descriptors name 128B-swizzled tiles (PTX ISA, "Asynchronous warpgroup level matrix
// shared memory layout"); which element is which does not matter here, only that the values are random.
__device__ uint64_t descriptor(const void* tile, int offset_bytes) {
    const uint64_t address = __cvta_generic_to_shared(tile) + offset_bytes;
    return (address & 0x3ffff) >> 4 | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)

// wgmma.mma_async m64n256k16: d += a * b, fp32 sums, both operands K-major.
__device__ __forceinline__ void wgmma_m64n256k16(float (&d)[128], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, 1, 1, 1, 0, 0;"
        : D16(0),
          D16(16),
          D16(32),
          D16(48),
          D16(64),
          D16(80),
          D16(96),
          D16(112)
        : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(256, 1) ceiling_wgmma_bf16(int steps, float* out) {
    extern __shared__ __align__(1024) unsigned char tiles[];  // A: 2 x 64x64, B: 64x256, all bf16
    auto* values = reinterpret_cast<__nv_bfloat16*>(tiles);
    for (int i = threadIdx.x; i < (2 * 64 * 64 + 64 * 256); i += 256) {
        const unsigned hash = (i + 1) * 2654435761u;
        values[i] = __float2bfloat16_rn((int(hash >> 8) - (1 << 23)) * (1.f / (1 << 23)));
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const unsigned char* a = tiles + threadIdx.x / 128 * (64 * 64 * 2);
    const unsigned char* b = tiles + 2 * 64 * 64 * 2;
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0.f;
    for (int step = 0; step < steps; ++step) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            wgmma_m64n256k16(d, descriptor(a, 32 * k), descriptor(b, 32 * k));
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float all = 0.f;
#pragma unroll
    for (int i = 0; i < 128; ++i) all += d[i];
    if (all == 1.2345f) out[threadIdx.x] = all;
}
#endif

extern "C" __global__ void ceiling_copy(const uint4* from, uint4* to, unsigned long long count) {
    const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        const uint4 v0 = from[i], v1 = from[i + stride], v2 = from[i + 2 * stride], v3 = from[i + 3 * stride];
        to[i] = v0, to[i + stride] = v1, to[i + 2 * stride] = v2, to[i + 3 * stride] = v3;
    }
    for (; i < count; i += stride) to[i] = from[i];
}
