// Kernels as other people write them: libraries, intrinsics, inline assembly, object-oriented code. For sm_80 and later.
// Each takes (out, in) and one block of 128 threads, if the test does not say otherwise.

#include <cuda/barrier>
#include <cuda/pipeline>

#include <cassert>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <alloca.h>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

// asserts and output

KERNEL asserts(int* out, const int* in) {
    const int x = in[ME];
    assert(x >= 0);
    assert(x < 1000 && "too large");
    if (threadIdx.x == 3) printf("thread %d has %d, %5.2f and %s\n", threadIdx.x, x, x * 0.5, "text");
    out[ME] = x + 1;
}

__device__ __noinline__ int checked(int x) {
    if (x == 77) __trap();
    return x * 2;
}

KERNEL traps(int* out, const int* in) { out[ME] = checked(in[ME]); }

// functions, objects, local memory

struct Shape {
    int size;
    __device__ explicit Shape(int s) : size(s) {}
    __device__ virtual int area() const = 0;
    __device__ virtual int sides() const { return 0; }
};
struct Square : Shape {
    using Shape::Shape;
    __device__ int area() const override { return size * size; }
    __device__ int sides() const override { return 4; }
};
struct Triangle : Shape {
    using Shape::Shape;
    __device__ int area() const override { return size * size / 2; }
};

__device__ __noinline__ int describe(const Shape* shape) { return shape->area() * 10 + shape->sides(); }

KERNEL virtuals(int* out, const int* in) {
    const int x = in[ME];
    Square square(x % 20);
    Triangle triangle(x % 30);
    const Shape* shape = x & 1 ? static_cast<const Shape*>(&square) : &triangle;
    out[ME] = describe(shape);
}

__device__ int twice(int x) { return 2 * x; }
__device__ int square_of(int x) { return x * x; }
__device__ int minus(int x) { return -x; }
using Function = int (*)(int);
__device__ Function table[3] = {twice, square_of, minus};

KERNEL pointers_to_functions(int* out, const int* in) { out[ME] = table[in[ME] % 3](in[ME]); }

struct Big {
    int a[12];
    double d;
};
__device__ __noinline__ Big made(int x) {
    Big b;
    for (int i = 0; i < 12; ++i) b.a[i] = x + i * i;
    b.d = x * 0.25;
    return b;
}
__device__ __noinline__ int taken(Big b, int i) { return b.a[i] + static_cast<int>(b.d * 4); }

KERNEL big_structs(int* out, const int* in) { out[ME] = taken(made(in[ME]), in[ME] % 12); }

__device__ __noinline__ int many(int a, float b, double c, long long d, short e, char f, unsigned g, bool h) {
    return a + static_cast<int>(b * 2) + static_cast<int>(c) + static_cast<int>(d >> 3) + e * 3 + f + (g >> 28) + h;
}

KERNEL many_arguments(int* out, const int* in) {
    const int x = in[ME];
    out[ME] = many(x, x * 0.5f, x * 1.5, x * 100LL, static_cast<short>(x - 500), static_cast<char>(x), ~x, x & 4);
}

KERNEL variable_stack(int* out, const int* in) {
    const int n = in[ME] % 9 + 1;
    int* a = static_cast<int*>(alloca(n * sizeof(int)));
    for (int i = 0; i < n; ++i) a[i] = i * in[ME];
    int sum = 0;
    for (int i = n - 1; i >= 0; --i) sum = sum * 2 + a[i];
    out[ME] = sum;
}

// memory

__constant__ int coefficients[5] = {3, 1, 4, 1, 5};
__device__ int counter = 10;
__device__ __managed__ int shared_by_all = 5;

KERNEL constants(int* out, const int* __restrict__ in) {
    int sum = shared_by_all;
    for (int i = 0; i < 5; ++i) sum = sum * 7 + coefficients[(i + in[ME]) % 5];
    atomicAdd(&counter, 1);
    out[ME] = sum + __ldg(in + ME);
}

KERNEL cache_hints(int* out, const int* in) {
    int v[8];
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(v[0]) : "l"(in + ME));
    asm volatile("ld.global.L1::evict_last.L2::cache_hint.u32 %0, [%1], %2;"
                 : "=r"(v[1])
                 : "l"(in + ME), "l"(0x14F0000000000000ull));
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v[2]) : "l"(in + ME), "l"(policy));
    asm volatile("prefetch.global.L2 [%0];" ::"l"(in + ME));
    asm volatile("prefetch.global.L1 [%0];" ::"l"(in + ME));
    v[3] = __ldcs(in + ME);
    v[4] = __ldcg(in + ME);
    v[5] = __ldlu(in + ME);
    v[6] = __ldcv(in + ME);
    v[7] = __ldca(in + ME);
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += v[i] << i;
    __stcs(out + ME, sum);
    __stwt(out + ME, sum);
    asm volatile("st.global.L1::no_allocate.u32 [%0], %1;" ::"l"(out + ME), "r"(sum));
}

// warps and groups

KERNEL group_algorithms(int* out, const int* in) {
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int x = in[ME];
    int r = cg::reduce(tile, x, cg::plus<int>()) + 1000 * cg::reduce(tile, x, cg::greater<int>());
    r += cg::inclusive_scan(tile, x % 7);
    r += tile.shfl(x, 3) * 3 + tile.meta_group_rank() + block.thread_rank();
    if (x % 3 == 0) {
        const auto some = cg::coalesced_threads();
        r += 7 * some.size() + some.thread_rank() + some.shfl(x, 0);
    }
    const auto odd = cg::binary_partition(tile, x & 1);
    r += odd.size() * 100;
    const auto labelled = cg::labeled_partition(tile, x % 3);
    r += labelled.thread_rank();
    block.sync();
    out[ME] = r;
}

// arithmetic

KERNEL special_functions(float* out, const float* in) {
    const float x = in[ME];
    float r = __expf(x) + __logf(x + 9) + __sinf(x) + __cosf(x) + __powf(x + 9, 1.5f) + __fdividef(x, 3.0f);
    r += expf(x) + logf(x + 9) + sinf(x) + cosf(x) + powf(x + 9, 1.5f) + tanhf(x) + erff(x) + cbrtf(x) + atan2f(x, 2);
    r += rsqrtf(x + 9) + sqrtf(x + 9) + fmodf(x, 0.7f) + floorf(x) + ceilf(x) + rintf(x) + truncf(x) + fabsf(x) + fmaf(x, x, 1);
    r += exp2f(x) + log2f(x + 9) + hypotf(x, 3) + fmaxf(x, 0.5f) + fminf(x, 0.5f) + copysignf(2, x) + ldexpf(x, 3) + sinpif(x);
    out[ME] = r + __fadd_rz(x, 0.1f) + __fmul_ru(x, 0.1f) + __fdiv_rd(x, 0.3f) + __frcp_rn(x + 9) + __saturatef(x) + __fsqrt_rn(x + 9);
}

KERNEL timers(long long* out, const int* in) {
    const long long before = clock64();
    unsigned long long now, later;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    __nanosleep(100);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(later));
    const clock_t ticks = clock();
    out[ME] = (clock64() > before) + 2 * (later >= now) + 4 * (ticks != 0) + in[ME];
}

// copies, pipelines, barriers of libcu++

KERNEL pipelined(int* out, const int* in, int stages_to_do) {  // <cuda_pipeline.h>
    __shared__ alignas(16) int4 stage[2][128];
    const int4* from = reinterpret_cast<const int4*>(in);
    int sum = 0;
    __pipeline_memcpy_async(&stage[0][threadIdx.x], from + threadIdx.x, sizeof(int4));
    __pipeline_commit();
    for (int i = 0; i < stages_to_do; ++i) {
        if (i + 1 < stages_to_do) {
            __pipeline_memcpy_async(&stage[(i + 1) % 2][threadIdx.x], from + (i + 1) * 128 + threadIdx.x, sizeof(int4));
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        const int4 v = stage[i % 2][127 - threadIdx.x];
        sum += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
        __syncthreads();
    }
    out[ME] = sum;
}

KERNEL barriers_of_libcu(int* out, const int* in) {  // cuda::barrier: arrive, wait, split in phases
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[128];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 4; ++i) {
        s[threadIdx.x] = in[ME] * (i + 1);
        auto token = bar.arrive();
        sum += i;
        bar.wait(std::move(token));
        sum += s[(threadIdx.x + 37) % 128];
        bar.arrive_and_wait();
    }
    out[ME] = sum;
}

KERNEL copies_by_barrier(int* out, const int* in) {  // cuda::memcpy_async
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ alignas(16) int s[512];
    const auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, s, in, cuda::aligned_size_t<16>(sizeof(s)), bar);
    bar.arrive_and_wait();
    out[ME] = s[511 - threadIdx.x] + s[threadIdx.x * 3];
}

KERNEL pipelines_of_libcu(int* out, const int* in) {  // cuda::pipeline, all threads producers and consumers
    constexpr int STAGES = 2;
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    __shared__ alignas(16) int s[STAGES][128];
    const auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int fetched = 0, i = 0; i < 4; ++i) {
        for (; fetched < 4 && fetched < i + STAGES; ++fetched) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[fetched % STAGES], in + fetched * 128, cuda::aligned_size_t<16>(512), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += s[i % STAGES][127 - threadIdx.x] * (i + 1);
        pipe.consumer_release();
    }
    out[ME] = sum;
}

KERNEL group_copies(int* out, const int* in) {  // cooperative_groups::memcpy_async
    __shared__ alignas(16) int s[256];
    const auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, in, sizeof(s));
    cg::wait(block);
    out[ME] = s[threadIdx.x] * 2 + s[255 - threadIdx.x];
}
