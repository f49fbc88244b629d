// What compilers make of ordinary CUDA, beyond the GEMM kernels. Each kernel writes what the host can work out.
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define GID (blockIdx.x * blockDim.x + threadIdx.x)

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__device__ __noinline__ int collatz(int n) {
    int steps = 0;
    while (n != 1) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        ++steps;
    }
    return steps;
}

extern "C" {

__global__ void recursion(int* out, const int* in) { out[GID] = fibonacci(in[GID]); }

__global__ void calls(int* out, const int* in) { out[GID] = in[GID] % 3 ? collatz(in[GID] + 1) : collatz(27) - 1; }

__global__ void nested(int* out, const int* in) {
    int x = in[GID], sum = 0;
    for (int i = 0; i < 20; ++i) {
        if (i > x) break;
        if (i % 3 == 0) {
            if (x & 1) sum += i;
            else
                sum -= i;
            continue;
        }
        sum += 100;
        if (sum > 700) {
            out[GID] = -sum;
            return;
        }
    }
    out[GID] = sum;
}

__global__ void switches(int* out, const int* in) {
    int x = in[GID], y;
    switch (x % 9) {
        case 0: y = x * 3; break;
        case 1: y = x ^ 77; break;
        case 2: y = x - 1000; break;
        case 3: y = __popc(x); break;
        case 4: y = __clz(x); break;
        case 5: y = __brev(x); break;
        case 6: y = x / 7; break;
        case 7: y = -x; break;
        default: y = 5;
    }
    out[GID] = y;
}

__global__ void generic(int* out, const int* in) {
    __shared__ int s[128];
    int local[4] = {1, 2, 3, 4};
    s[threadIdx.x] = in[GID];
    local[in[GID] & 3] = 9;
    __syncthreads();
    const int* p = in[GID] % 3 == 0 ? &s[threadIdx.x ^ 1] : in[GID] % 3 == 1 ? &local[in[GID] & 3] : &in[GID];
    out[GID] = *p;
}

__global__ void lock(int* out, const int* in) {
    int* mutex = out + 1;
    bool done = false;
    while (!done) {
        if (atomicCAS(mutex, 0, 1) == 0) {
            out[0] = out[0] + in[GID];
            __threadfence();
            atomicExch(mutex, 0);
            done = true;
        }
    }
}

__global__ void producer(int* out, const int* in) {  // half the block produces, half consumes, by named barriers
    __shared__ int s[64];
    if (threadIdx.x < 64) {
        s[threadIdx.x] = in[GID] * 2;
        asm volatile("bar.arrive 1, 128;" ::: "memory");
        out[GID] = 0;
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[GID] = s[127 - threadIdx.x];
    }
}

__global__ void inline_scopes(int* out, const int* in) {
    int x = in[GID], y, z;
    asm("{\n .reg .pred p;\n .reg .b32 t;\n setp.gt.s32 p, %1, 10;\n add.s32 t, %1, 5;\n selp.b32 %0, t, 0, p;\n}"
        : "=r"(y)
        : "r"(x));
    asm("{\n .reg .pred p;\n .reg .b64 t;\n setp.lt.s32 p, %1, 10;\n cvt.s64.s32 t, %1;\n @p bra skip%=;\n"
        " add.s64 t, t, 1000;\n skip%=:\n cvt.u32.u64 %0, t;\n}"
        : "=r"(z)
        : "r"(x));
    out[GID] = y * 1000000 + z;
}

__global__ void texture(float4* out, cudaTextureObject_t t) { out[GID] = tex1Dfetch<float4>(t, static_cast<int>(GID) - 2); }

__global__ void spin_between_warps(int* out, volatile int* flag) {
    if (threadIdx.x < 32) {
        while (flag[0] == 0) {
        }
        out[GID] = 1;
    } else {
        out[GID] = 2;
        __threadfence();
        flag[0] = 1;
    }
}
}

// A loop that ends after `rounds`, whatever its volatile load and its atomic return
extern "C" __global__ void counted_rounds(int* from, int rounds, int* out) {
    volatile int* looked = from;
    int all = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) all += *looked + atomicAdd(&out[1], 1);
    if (threadIdx.x == 0) out[0] = all;
}
