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

struct Pair {
    int a;
    double b;
};
__device__ __noinline__ Pair swap_scale(Pair p, int factor) { return Pair{static_cast<int>(p.b) * factor, p.a * 0.5}; }

__device__ __noinline__ int plus_one(int x) { return x + 1; }
__device__ __noinline__ int times_two(int x) { return x * 2; }

__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counter = 100;
__device__ float lookup[4] = {0.5f, 1.5f, 2.5f, 3.5f};

extern "C" {

__global__ void recursion(int* out, const int* in) { out[GID] = fibonacci(in[GID]); }

__global__ void calls(int* out, const int* in) { out[GID] = in[GID] % 3 ? collatz(in[GID] + 1) : collatz(27) - 1; }

__global__ void structs(int* out, const int* in) {
    Pair p = swap_scale(Pair{in[GID], in[GID] * 2.0 + 0.75}, 3);
    out[GID] = p.a + static_cast<int>(p.b * 2);
}

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

__global__ void tables(int* out, const int* in) {
    out[GID] = table[in[GID] & 7] + static_cast<int>(lookup[in[GID] & 3] * 2);
    atomicAdd(&counter, 1);
}

__global__ void locals(int* out, const int* in) {
    int stack[16];
    for (int i = 0; i < 16; ++i) stack[i] = i * i;
    for (int i = 0; i < 16; ++i) stack[(i * in[GID]) & 15] += i;
    out[GID] = stack[in[GID] & 15];
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

__global__ void warps(int* out, const int* in) {
    int x = in[GID], lane = threadIdx.x % 32;
    int sum = x;
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    int scan = x;
    for (int d = 1; d < 32; d *= 2) {
        int y = __shfl_up_sync(0xffffffffu, scan, d);
        if (lane >= d) scan += y;
    }
    unsigned odd = __ballot_sync(0xffffffffu, x & 1);
    int down = __shfl_down_sync(0xffffffffu, x, 3, 8);
    int least = __reduce_min_sync(0xffffffffu, x);
    unsigned same = __match_any_sync(0xffffffffu, x & 3);
    int active = 0;
    if (x % 5 == 0) active = __popc(__activemask());
    out[GID] = sum + 3 * scan + __popc(odd) + 7 * down + 11 * least + 13 * __popc(same) + active;
}

__global__ void atomics(int* out, const int* in) {
    __shared__ int bins[8], most;
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    if (threadIdx.x == 0) most = -1;
    __syncthreads();
    atomicAdd(&bins[in[GID] & 7], in[GID]);
    atomicMax(&most, in[GID]);
    __syncthreads();
    if (threadIdx.x < 8) out[blockIdx.x * 16 + threadIdx.x] = bins[threadIdx.x];
    if (threadIdx.x == 8) out[blockIdx.x * 16 + 8] = most;
    int* last = &out[gridDim.x * 16];
    atomicAdd(last, 1);
    atomicCAS(last + 1, 0, 42);
    atomicOr(last + 2, 1 << (in[GID] & 31));
    atomicInc(reinterpret_cast<unsigned*>(last + 3), 9u);
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

__global__ void block_votes(int* out, const int* in) {
    int n = __syncthreads_count(in[GID] & 1);
    int all = __syncthreads_and(in[GID] >= 0), any = __syncthreads_or(in[GID] == 17);
    out[GID] = n * 100 + all * 10 + any;
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

__global__ void halves(int* out, const int* in) {
    __half a = __int2half_rn(in[GID]), b = __float2half(0.37f);
    __half2 p = __halves2half2(a, b), q = __hfma2(p, p, __halves2half2(b, a));
    __nv_bfloat16 c = __float2bfloat16(in[GID] * 0.123f), d = __hmul(c, c);
    __nv_bfloat162 e = __hadd2(__halves2bfloat162(c, d), __halves2bfloat162(d, c));
    out[3 * GID] = *reinterpret_cast<int*>(&q);
    out[3 * GID + 1] = *reinterpret_cast<int*>(&e);
    out[3 * GID + 2] = __hlt(a, b) * 2 + __hgt(c, d) + static_cast<int>(__half2float(__hdiv(a, b)));
}

__global__ void doubles(double* out, const double* in) {
    double x = in[GID];
    out[4 * GID] = fma(x, x, -1.0 / 3);
    out[4 * GID + 1] = x / 3.0 + sqrt(fabs(x));
    out[4 * GID + 2] = fmin(x, 0.25) - fmax(x, -0.25);
    out[4 * GID + 3] = static_cast<double>(static_cast<long long>(x * 1e6)) + rint(x * 10) + floor(x) + __dmul_rd(x, 0.1);
}

__global__ void functions(float* out, const float* in) {
    float x = in[GID];
    out[8 * GID] = expf(x);
    out[8 * GID + 1] = logf(fabsf(x) + 0.1f);
    out[8 * GID + 2] = sinf(x);
    out[8 * GID + 3] = powf(fabsf(x) + 0.5f, 1.7f);
    out[8 * GID + 4] = tanhf(x);
    out[8 * GID + 5] = rsqrtf(fabsf(x) + 1) + x / 3.3f;
    out[8 * GID + 6] = fmodf(x, 0.7f) + erff(x);
    out[8 * GID + 7] = cosf(x * 1000.0f);
}

__global__ void integers(long long* out, const long long* in) {
    long long x = in[2 * GID], y = in[2 * GID + 1];
    unsigned long long u = x, v = y;
    out[10 * GID] = x * y;
    out[10 * GID + 1] = __mul64hi(x, y);
    out[10 * GID + 2] = __umul64hi(u, v);
    out[10 * GID + 3] = y ? x / y : 0;
    out[10 * GID + 4] = v ? u % v : 0;
    out[10 * GID + 5] = __clzll(x) + __popcll(y) + __ffsll(x);
    out[10 * GID + 6] = (x >> (y & 63)) ^ (u << (v & 63));
    out[10 * GID + 7] = __funnelshift_l(u, v, 13) + (static_cast<long long>(__byte_perm(u, v, 0x6240)) << 32);
    unsigned __int128 wide = static_cast<unsigned __int128>(u) * v + u;
    out[10 * GID + 8] = static_cast<long long>(wide >> 64);
    out[10 * GID + 9] = min(x, y) - max(static_cast<int>(x), static_cast<int>(y)) + __vabsdiffu4(x, y);
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

__global__ void pointers(int* out, const int* in) {
    int (*f)(int) = in[GID] & 1 ? plus_one : times_two;
    out[GID] = f(in[GID]);
}

__global__ void print(int* out, const int* in) {
    if (threadIdx.x < 2) printf("thread %d of block %u: %5.2f %s %lld\n", threadIdx.x, blockIdx.x, in[GID] * 0.5, "ok", 1ll << 40);
    out[GID] = in[GID];
}

__global__ void clocks(long long* out, const int* in) {
    long long a = clock64();
    long long s = in[GID];
    out[GID] = clock64() - a + (s - s);
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

__global__ void volatile_shared(int* out, const int* in) {
    __shared__ int s[32];
    s[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = s[31 - threadIdx.x];
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
