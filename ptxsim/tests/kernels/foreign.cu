// Kernels as other people write them: libraries, intrinsics, inline assembly, object-oriented code. For sm_80 and later.
// Each takes (out, in) and one block of 128 threads, if the test does not say otherwise.

#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/array>

#include <cassert>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
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

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

KERNEL deep_recursion(int* out, const int* in) { out[ME] = ackermann(in[ME] % 3, in[ME] % 4); }

KERNEL insertion_sort(int* out, const int* in) {  // in local memory
    int v[16];
    for (int i = 0; i < 16; ++i) v[i] = in[ME] * (i + 7) % 101;
    for (int i = 1; i < 16; ++i) {
        const int x = v[i];
        int j = i;
        for (; j > 0 && v[j - 1] > x; --j) v[j] = v[j - 1];
        v[j] = x;
    }
    out[ME] = v[in[ME] % 16] * 1000 + v[15 - in[ME] % 16];
}

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

template <typename F>
__device__ int fold(const int* begin, int count, int start, F f) {
    for (int i = 0; i < count; ++i) start = f(start, begin[i]);
    return start;
}

KERNEL lambdas(int* out, const int* in) {
    const int bias = in[ME] % 7;
    out[ME] = fold(in, 8, bias, [=](int a, int b) { return a * 3 + b % (bias + 1); });
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

KERNEL dynamic_shared(int* out, const int* in) {
    extern __shared__ int pool[];
    int* first = pool;
    double* second = reinterpret_cast<double*>(pool + blockDim.x);
    first[threadIdx.x] = in[ME];
    second[threadIdx.x] = in[ME] * 0.5;
    __syncthreads();
    const int other = blockDim.x - 1 - threadIdx.x;
    out[ME] = first[other] + static_cast<int>(second[other] * 4);
}

KERNEL wide_accesses(int4* out, const int4* in) {
    int4 v = in[ME];
    const longlong2 w = *reinterpret_cast<const longlong2*>(in + ME);
    const uchar4 c = *reinterpret_cast<const uchar4*>(in + ME);
    const short2 s = *reinterpret_cast<const short2*>(in + ME);
    v.x += static_cast<int>(w.y >> 32);
    v.y += c.x + c.y * 2 + c.z * 3 + c.w * 4;
    v.z += s.x - s.y;
    out[ME] = v;
}

// atomics

KERNEL all_atomics(int* out, const int* in) {
    __shared__ unsigned s[8];
    __shared__ float f[2];
    __shared__ double d;
    __shared__ unsigned long long l[3];
    if (threadIdx.x < 8) s[threadIdx.x] = threadIdx.x == 3 ? ~0u : 0;
    if (threadIdx.x < 2) f[threadIdx.x] = 0;
    if (threadIdx.x < 3) l[threadIdx.x] = 0;
    if (threadIdx.x == 0) d = 0;
    __syncthreads();
    const unsigned x = in[ME];
    atomicAdd(&s[0], x);
    atomicSub(&s[1], x);
    atomicMax(&s[2], x);
    atomicMin(&s[3], x);
    atomicOr(&s[4], 1u << (x & 31));
    atomicXor(&s[5], x);
    atomicInc(&s[6], 40);
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&d, 0.25);
    atomicAdd(&l[0], 1ull << 33);
    atomicMax(&l[1], static_cast<unsigned long long>(x) << 20);
    for (unsigned seen = s[7];;) {  // a compare-and-swap loop
        const unsigned before = atomicCAS(&s[7], seen, seen + x % 3);
        if (before == seen) break;
        seen = before;
    }
    atomicExch(&f[1], 2.5f);
    __syncthreads();
    atomicAdd_block(out + 16, 1);
    atomicAdd_system(out + 17, 2);
    if (threadIdx.x < 8) out[threadIdx.x] = s[threadIdx.x];
    if (threadIdx.x == 8) out[8] = static_cast<int>(f[0] * 2 + f[1] * 1000);
    if (threadIdx.x == 9) out[9] = static_cast<int>(d * 4);
    if (threadIdx.x == 10) out[10] = static_cast<int>(l[0] >> 33) + static_cast<int>(l[1] >> 20) * 1000;
}

KERNEL half_atomics(float* out, const int* in) {
    __shared__ __half2 h;
    __shared__ __nv_bfloat162 b;
    __shared__ __half one;
    if (threadIdx.x == 0) h = __half2half2(0), b = __float2bfloat162_rn(0), one = 0;
    __syncthreads();
    atomicAdd(&h, __floats2half2_rn(0.5f, static_cast<float>(in[ME] % 4)));
    atomicAdd(&b, __floats2bfloat162_rn(1.0f, 0.25f));
    atomicAdd(&one, __float2half(0.125f));
    __syncthreads();
    if (threadIdx.x == 0) {
        out[0] = __low2float(h), out[1] = __high2float(h);
        out[2] = __low2float(b), out[3] = __high2float(b);
        out[4] = __half2float(one);
    }
}

// warps and groups

KERNEL warp_intrinsics(int* out, const int* in) {
    const int x = in[ME], lane = threadIdx.x % 32;
    int r = __shfl_sync(~0u, x, (lane + 5) % 32);
    r = r * 3 + __shfl_up_sync(~0u, x, 3);
    r = r * 3 + __shfl_down_sync(~0u, x, 7, 16);
    r = r * 3 + __shfl_xor_sync(~0u, x, 9, 8);
    r = r * 3 + __popc(__ballot_sync(~0u, x & 1)) + __any_sync(~0u, x > 990) + 2 * __all_sync(~0u, x < 1000);
    r = r * 3 + static_cast<int>(__match_any_sync(~0u, x % 5) & 0xffff);
    int same = 0;
    __match_all_sync(~0u, x / 1000, &same);
    r = r * 3 + same + __reduce_add_sync(~0u, x) + __reduce_max_sync(~0u, x) - __reduce_min_sync(~0u, x);
    r ^= __reduce_xor_sync(~0u, x) + __reduce_or_sync(~0u, x);
    const double d = __shfl_sync(~0u, x * 0.5, 0);
    if (lane < 20) r += __popc(__activemask());
    __syncwarp();
    out[ME] = r + static_cast<int>(d * 2);
}

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

KERNEL bit_intrinsics(int* out, const int* in) {
    const unsigned x = in[ME] * 2654435761u, y = in[ME] + 12345;
    unsigned r = __byte_perm(x, y, 0x3715) ^ __funnelshift_l(x, y, 7) ^ __funnelshift_rc(x, y, 40);
    r += __dp4a(static_cast<int>(x), static_cast<int>(y), 17) + __dp4a(x, y, 3u) + __dp2a_lo(static_cast<int>(x), static_cast<int>(y), 5);
    r ^= __brev(x) + __clz(y) + __ffs(x) + __popcll(static_cast<unsigned long long>(x) << 9 | y) + __clzll(y);
    r += __umulhi(x, y) + __mulhi(static_cast<int>(x), -7) + __mul24(x, y) + __usad(x, y, 1) + __sad(static_cast<int>(x), 5, 2u);
    r ^= __vadd4(x, y) + __vmaxs2(x, y) + __vabsdiffu4(x, y) + __vcmpeq4(x & 0x0f0f0f0f, y & 0x0f0f0f0f) + __vavgu4(x, y);
    r += __hadd(static_cast<int>(x), static_cast<int>(y)) + __rhadd(static_cast<int>(x), static_cast<int>(y));
    out[ME] = r + static_cast<int>(__mul64hi(static_cast<long long>(x) << 30, static_cast<long long>(y) << 30));
}

KERNEL integer_division(long long* out, const int* in) {
    const int x = in[ME] - 500;
    const long long y = x * 123456789012345LL;
    const unsigned long long z = static_cast<unsigned long long>(y);
    out[ME] = x / 7 + x % 7 * 10 + y / 1000003 + y % 97 + static_cast<long long>(z / 12345u) + static_cast<long long>(z % (x * x + 1)) +
              (y >> 5) + static_cast<long long>(z >> 60) + x / (x % 5 + 6);
}

KERNEL special_functions(float* out, const float* in) {
    const float x = in[ME];
    float r = __expf(x) + __logf(x + 9) + __sinf(x) + __cosf(x) + __powf(x + 9, 1.5f) + __fdividef(x, 3.0f);
    r += expf(x) + logf(x + 9) + sinf(x) + cosf(x) + powf(x + 9, 1.5f) + tanhf(x) + erff(x) + cbrtf(x) + atan2f(x, 2);
    r += rsqrtf(x + 9) + sqrtf(x + 9) + fmodf(x, 0.7f) + floorf(x) + ceilf(x) + rintf(x) + truncf(x) + fabsf(x) + fmaf(x, x, 1);
    r += exp2f(x) + log2f(x + 9) + hypotf(x, 3) + fmaxf(x, 0.5f) + fminf(x, 0.5f) + copysignf(2, x) + ldexpf(x, 3) + sinpif(x);
    out[ME] = r + __fadd_rz(x, 0.1f) + __fmul_ru(x, 0.1f) + __fdiv_rd(x, 0.3f) + __frcp_rn(x + 9) + __saturatef(x) + __fsqrt_rn(x + 9);
}

KERNEL rounding(int* out, const float* in) {
    const float x = in[ME];
    out[ME] = __float2int_rn(x) + 10 * __float2int_rz(x) + 100 * __float2int_ru(x) + 1000 * __float2int_rd(x) +
              static_cast<int>(__float2uint_rn(fabsf(x))) + static_cast<int>(__float2ll_rn(x * 1e3f)) + static_cast<int>(2 * __half2float(__float2half_rn(x))) +
              static_cast<int>(__double2int_rn(x * 2.5)) + __float_as_int(__int2float_rz(__float_as_int(x))) % 1000;
}

KERNEL half_arithmetic(float* out, const float* in) {
    const __half2 x = __floats2half2_rn(in[ME], in[ME] * 0.5f), y = __float2half2_rn(1.25f);
    __half2 r = __hfma2(x, y, __hmul2(x, x));
    r = __hadd2(r, __hsub2(y, x));
    r = __hmax2(r, y);
    r = __hmin2(r, __float2half2_rn(30));
    const __half h = __hadd(__low2half(r), hexp(__high2half(__hneg2(__habs2(x)))));
    const __nv_bfloat162 b = __floats2bfloat162_rn(in[ME], 3.0f);
    const __nv_bfloat162 c = __hfma2(b, b, __float2bfloat162_rn(0.5f));
    out[ME] = __half2float(h) + __half2float(__hdiv(h, __float2half(3))) + (__hgt(h, __float2half(2)) ? 100 : 0) +
              (__hbeq2(x, x) ? 1000 : 0) + __low2float(c) + __bfloat162float(__high2bfloat16(c)) + __half2float(hsqrt(__habs(h)));
}

KERNEL inline_assembly(int* out, const int* in) {
    const int x = in[ME];
    int r;
    asm("{ .reg .pred p, q; .reg .b32 t, u; .reg .b64 w;\n"
        "  setp.gt.s32 p|q, %1, 500;\n"
        "  selp.b32 t, 3, 5, p;\n"
        "  @q add.s32 t, t, 100;\n"
        "  mul.wide.s32 w, %1, t;\n"
        "  cvt.u32.u64 u, w;\n"
        "  lop3.b32 t, t, u, %1, 0xE8;\n"
        "  vadd.s32.u32.s32.sat t, t, u;\n"
        "  bfe.u32 u, u, 4, 7;\n"
        "  mad.lo.s32 %0, t, 17, u; }"
        : "=r"(r)
        : "r"(x));
    unsigned lo, hi;
    asm("add.cc.u32 %0, %2, %3; addc.u32 %1, %4, %5;" : "=r"(lo), "=r"(hi) : "r"(x * 0x9e3779b9u), "r"(~0u), "r"(x), "r"(7));
    unsigned lane, warp, smid, grid;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(warp));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(smid));
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(grid));
    out[ME] = r + static_cast<int>(lo ^ hi) + static_cast<int>(lane * 3 + __popc(warp) + (smid > 10000)) + static_cast<int>(grid);
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

KERNEL zero_filled(int* out, const int* in) {  // cp.async of 16, 8 and 4 bytes that reads less than it writes
    __shared__ alignas(16) int s[128 * 8];
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(s + threadIdx.x * 8));
    const int* from = in + threadIdx.x * 8 % 120;
    const int bytes = threadIdx.x % 5 * 4;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at + 16), "l"(from + 4), "r"(min(bytes, 8)));
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], 4; }" ::"r"(at + 24),
                 "l"(from + 6), "r"(bytes));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at + 28), "l"(from + 7));
    if (bytes == 0) s[threadIdx.x * 8 + 6] = -1;
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum = sum * 3 + s[(127 - threadIdx.x) * 8 + i];
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

// tensor cores

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

#define FRAGMENT4 "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])

KERNEL matrices(uint32_t* out, const uint32_t* in) {  // ldmatrix in all sizes; one warp
    __shared__ alignas(16) uint32_t s[32 * 4];
    for (int i = 0; i < 4; ++i) s[threadIdx.x * 4 + i] = in[threadIdx.x * 4 + i];
    __syncwarp();
    const uint32_t at = shared_address(s + threadIdx.x * 4);
    uint32_t a[4], sum = 0;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : FRAGMENT4 : "r"(at));
    for (int i = 0; i < 4; ++i) sum = sum * 3 + a[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : FRAGMENT4 : "r"(at));
    for (int i = 0; i < 4; ++i) sum = sum * 3 + a[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a[0]), "=r"(a[1]) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(a[2]) : "r"(at));
    out[threadIdx.x] = sum + a[0] * 5 + a[1] * 7 + a[2] * 11;
}

// One mma of each shape and type on fragments given as they are: 4 words of A, 2 of B and 4 of C a lane
#define MMA(NAME, TEXT, ...)                                                                    \
    KERNEL NAME(uint32_t* out, const uint32_t* in) {                                            \
        const uint32_t* a = in + threadIdx.x * 10;                                              \
        const uint32_t* b = a + 4;                                                              \
        const uint32_t* c = a + 6;                                                              \
        uint32_t d[4] = {};                                                                     \
        asm volatile("mma.sync.aligned." TEXT : __VA_ARGS__);                                   \
        for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];                            \
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
#define F2_2_1_2 "{%0, %1}, {%2, %3}, {%4}, {%5, %6};"

MMA(mma_f16_k16, "m16n8k16.row.col.f32.f16.f16.f32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_f16_k8, "m16n8k8.row.col.f32.f16.f16.f32 " F4_2_1_4, D4 : A2, B1, C4)
MMA(mma_f16_f16, "m16n8k16.row.col.f16.f16.f16.f16 " F2_4_2_2, D2 : A4, B2, C2)
MMA(mma_f16_f16_k8, "m16n8k8.row.col.f16.f16.f16.f16 " F2_2_1_2, D2 : A2, B1, C2)
MMA(mma_bf16_k16, "m16n8k16.row.col.f32.bf16.bf16.f32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_bf16_k8, "m16n8k8.row.col.f32.bf16.bf16.f32 " F4_2_1_4, D4 : A2, B1, C4)
MMA(mma_tf32_k8, "m16n8k8.row.col.f32.tf32.tf32.f32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_tf32_k4, "m16n8k4.row.col.f32.tf32.tf32.f32 " F4_2_1_4, D4 : A2, B1, C4)
MMA(mma_s8_k32, "m16n8k32.row.col.s32.s8.s8.s32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_u8_k16, "m16n8k16.row.col.s32.u8.s8.s32 " F4_2_1_4, D4 : A2, B1, C4)
MMA(mma_s8_sat, "m16n8k32.row.col.satfinite.s32.s8.u8.s32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_s4_k64, "m16n8k64.row.col.s32.s4.s4.s32 " F4_4_2_4, D4 : A4, B2, C4)
MMA(mma_b1_k256, "m16n8k256.row.col.s32.b1.b1.s32.and.popc " F4_4_2_4, D4 : A4, B2, C4)

KERNEL mma_f64(double* out, const double* in) {
    const double a = in[threadIdx.x], b = in[32 + threadIdx.x], c0 = in[64 + 2 * threadIdx.x], c1 = in[65 + 2 * threadIdx.x];
    double d0, d1;
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
                 : "=d"(d0), "=d"(d1)
                 : "d"(a), "d"(b), "d"(c0), "d"(c1));
    out[2 * threadIdx.x] = d0, out[2 * threadIdx.x + 1] = d1;
}
