// wgmma through every swizzle and both majors; A out of registers; warpgroups with roles. `fault` breaks a step.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
__device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int N>
__device__ void pin(float (&d)[N]) {  // keeps the compiler from moving what defines d
#pragma unroll
    for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// SWIZZLE: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32, as in a descriptor.
template <int SWIZZLE>
constexpr int ROW = SWIZZLE == 0 ? 16 : 256 >> SWIZZLE;

__device__ uint64_t descriptor(uint32_t start, int leading, int stride, int swizzle) {
    return (start & 0x3FFFF) >> 4 | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(swizzle) << 62;
}

// A tile of LINES x K elements of SIZE bytes; where an element lies, and its descriptor from element `k` on.
template <int SWIZZLE, bool ACROSS, int LINES, int K, int SIZE>
struct Tile {
    static constexpr int row = ROW<SWIZZLE>;
    __device__ static int at(int line, int k) {
        int byte = (ACROSS ? line : k) * SIZE, other = ACROSS ? k : line;
        int offset = byte / row * (ACROSS ? K : LINES) * row + other * row + byte % row;
        return offset ^ (offset >> 7 & row / 16 - 1) << 4;
    }
    __device__ static uint64_t from(const uint8_t* tile, int k) {
        uint32_t start = shared_address(tile);
        if (ACROSS) {
            int leading = SWIZZLE ? K * row : 8 * row, stride = SWIZZLE ? 8 * row : K * row;
            return descriptor(start + k * row, leading, stride, SWIZZLE);
        }
        int byte = k * SIZE;
        return descriptor(start + byte / row * LINES * row + byte % row, LINES * row, 8 * row, SWIZZLE);
    }
};

#define FLOATS(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D32                                                                                                              \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "    \
    "%24, %25, %26, %27, %28, %29, %30, %31}"
#define OUT32(d)                                                                                                         \
    FLOATS(d, 0), FLOATS(d, 4), FLOATS(d, 8), FLOATS(d, 12), FLOATS(d, 16), FLOATS(d, 20), FLOATS(d, 24), FLOATS(d, 28)

template <typename T, bool TRANS_A, bool TRANS_B>
__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
    if constexpr (sizeof(T) == 1)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 " D32 ", %32, %33, p, 1, 1; }"
                     : OUT32(d)
                     : "l"(a), "l"(b), "r"(accumulate));
    else if constexpr (sizeof(T) == 4)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 " D32 ", %32, %33, p, 1, 1; }"
                     : OUT32(d)
                     : "l"(a), "l"(b), "r"(accumulate));
    else if constexpr (std::is_same_v<T, __half>)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " D32 ", %32, %33, p, 1, 1, %35, %36; }"
                     : OUT32(d)
                     : "l"(a), "l"(b), "r"(accumulate), "n"(TRANS_A), "n"(TRANS_B));
    else
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " D32 ", %32, %33, p, 1, 1, %35, %36; }"
                     : OUT32(d)
                     : "l"(a), "l"(b), "r"(accumulate), "n"(TRANS_A), "n"(TRANS_B));
}

__device__ int row_of(int i) { return threadIdx.x % 128 / 32 * 16 + i / 2 % 2 * 8 + threadIdx.x % 32 / 4; }
__device__ int column_of(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

enum Fault { NONE, EARLY, NO_FENCE, SCALED, OVERWRITTEN, NO_BARRIER, RESERVED, HALF, NO_COMMIT, DIFFERENT, NO_PROXY, STRIDE };

// d[64][64] = a[64][K] b[64][K]^T, one warpgroup; K of 128 bytes.
template <typename T, int SWIZZLE, bool ACROSS_A, bool ACROSS_B, int FAULT = NONE>
__global__ void gemm(float* out, const T* a, const T* b) {
    constexpr int K = 128 / sizeof(T), STEP = 32 / sizeof(T);
    __shared__ alignas(1024) uint8_t as[64 * 128];
    __shared__ alignas(1024) uint8_t bs[64 * 128];
    using A = Tile<SWIZZLE, ACROSS_A, 64, K, sizeof(T)>;
    using B = Tile<SWIZZLE, ACROSS_B, 64, K, sizeof(T)>;
    for (int i = threadIdx.x; i < 64 * K; i += 128) {
        *reinterpret_cast<T*>(as + A::at(i / K, i % K)) = a[i];
        *reinterpret_cast<T*>(bs + B::at(i / K, i % K)) = b[i];
    }
    if (FAULT != NO_PROXY) proxy_fence();
    if (FAULT != NO_BARRIER) __syncthreads();
    float d[32];
    for (float& x : d) x = 1e30f;
    pin(d);
    if (FAULT != NO_FENCE) fence();
    if (FAULT == HALF && threadIdx.x < 64) return;
    uint64_t broken = FAULT == RESERVED ? 1ull << 53 : FAULT == STRIDE ? -(32ull << 32) : FAULT == DIFFERENT ? threadIdx.x & 64 : 0;
#pragma unroll
    for (int k = 0; k < K; k += STEP) {
        multiply<T, ACROSS_A, ACROSS_B>(d, A::from(as, k) + broken, B::from(bs, k), k > 0);
        if (FAULT == SCALED) {
            commit();
            wait<0>();
            for (float& x : d) x *= 2;
            pin(d);
        }
    }
    if (FAULT != NO_COMMIT) commit();
    if (FAULT == OVERWRITTEN) as[threadIdx.x] = 0;
    if (FAULT == EARLY)
        out[threadIdx.x] = d[1] * 2;
    wait<0>();
    pin(d);
    for (int i = 0; i < 32; ++i) out[row_of(i) * 64 + column_of(i)] = d[i];
}
#define GEMMS(T, S)                                                                                     \
    template __global__ void gemm<T, S, false, false>(float*, const T*, const T*);                      \
    template __global__ void gemm<T, S, true, false>(float*, const T*, const T*);                       \
    template __global__ void gemm<T, S, false, true>(float*, const T*, const T*);                       \
    template __global__ void gemm<T, S, true, true>(float*, const T*, const T*);
#define K_MAJOR(T, S) template __global__ void gemm<T, S, false, false>(float*, const T*, const T*);
#define ALL(M, T) M(T, 0) M(T, 1) M(T, 2) M(T, 3)
ALL(GEMMS, __nv_bfloat16)
ALL(GEMMS, __half)
ALL(K_MAJOR, float)
ALL(K_MAJOR, uint8_t)
#define FAULTY(F) template __global__ void gemm<__half, 1, false, false, F>(float*, const __half*, const __half*);
FAULTY(EARLY) FAULTY(NO_FENCE) FAULTY(SCALED) FAULTY(OVERWRITTEN) FAULTY(NO_BARRIER) FAULTY(RESERVED)
FAULTY(HALF) FAULTY(NO_COMMIT) FAULTY(DIFFERENT) FAULTY(NO_PROXY) FAULTY(STRIDE)

// The same with A out of registers, its sign turned, and two groups under way at a time.
template <int FAULT>
__global__ void from_registers(float* out, const __half* a, const __half* b) {
    __shared__ alignas(1024) uint8_t bs[64 * 128];
    using B = Tile<1, false, 64, 64, 2>;
    for (int i = threadIdx.x; i < 64 * 64; i += 128) *reinterpret_cast<__half*>(bs + B::at(i / 64, i % 64)) = b[i];
    proxy_fence();
    __syncthreads();
    float d[32] = {};
    pin(d);
    uint32_t x[2][4] = {};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        uint32_t(&own)[4] = x[step % 2];
        if (FAULT != NO_FENCE || step == 0) {
            for (int i = 0; i < 4; ++i) {
                int row = row_of(i * 2), k = step * 16 + i / 2 * 8 + threadIdx.x % 4 * 2;
                own[i] = *reinterpret_cast<const uint32_t*>(a + row * 64 + k);
                asm volatile("" : "+r"(own[i])::"memory");
            }
            fence();
        } else {
            asm volatile("{ .reg .b32 t; mov.u32 t, 5; add.u32 %0, %0, t; }" : "+r"(own[0]));
        }
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " D32 ", {%32, %33, %34, %35}, %36, 1, -1, 1, 0;"
            : OUT32(d)
            : "r"(own[0]), "r"(own[1]), "r"(own[2]), "r"(own[3]), "l"(B::from(bs, step * 16)));
        commit();
        if (FAULT == OVERWRITTEN) asm volatile("mov.b32 %0, 0; add.u32 %0, %0, %1;" : "+r"(own[0]) : "r"(own[1]));
        wait<1>();
    }
    wait<0>();
    pin(d);
    for (int i = 0; i < 32; ++i) out[row_of(i) * 64 + column_of(i)] = d[i];
}
template __global__ void from_registers<NONE>(float*, const __half*, const __half*);
template __global__ void from_registers<NO_FENCE>(float*, const __half*, const __half*);
template __global__ void from_registers<OVERWRITTEN>(float*, const __half*, const __half*);

__device__ void init(uint64_t* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
__device__ void arrive(uint64_t* bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ void wait_for(uint64_t* bar, int parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "  @done bra DONE;\n"
        "  bra WAIT;\n"
        "DONE: }" ::"r"(shared_address(bar)),
        "r"(parity)
        : "memory");
}

// One warpgroup copies tiles into two rings; of two others the first multiplies `tiles` of them, the second twice as
// many. out[2][64][64], a and b [3 tiles][64][64]: out[0] is the sum over the first `tiles`, out[1] over the rest.
template <int FAULT>
__global__ void roles(float* out, const __nv_bfloat16* a, const __nv_bfloat16* b, int tiles) {
    using T = Tile<1, false, 64, 64, 2>;
    extern __shared__ __align__(1024) uint8_t shared[];  // [2 rings][2 stages][a, b][64 * 128]
    __shared__ uint64_t full[2][2], empty[2][2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) init(&full[i / 2][i % 2], 128), init(&empty[i / 2][i % 2], 128);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int role = threadIdx.x / 128, own = threadIdx.x % 128;
    if (role == 2) {
        for (int tile = 0; tile < 2 * tiles; ++tile) {
            for (int ring = tile < tiles ? 0 : 1; ring < 2; ++ring) {
                int stage = tile % 2, round = tile / 2, from = ring ? tiles + tile : tile;
                wait_for(&empty[ring][stage], round % 2 ^ 1);
                uint8_t* to = shared + (ring * 2 + stage) * 2 * 64 * 128;
                for (int i = own; i < 64 * 64; i += 128) {
                    *reinterpret_cast<__nv_bfloat16*>(to + T::at(i / 64, i % 64)) = a[from * 64 * 64 + i];
                    *reinterpret_cast<__nv_bfloat16*>(to + 64 * 128 + T::at(i / 64, i % 64)) = b[from * 64 * 64 + i];
                }
                proxy_fence();
                arrive(&full[ring][stage]);
            }
        }
    } else {
        float d[32] = {};
        pin(d);
        for (int tile = 0; tile < (role + 1) * tiles; ++tile) {
            int stage = tile % 2;
            wait_for(&full[role][stage], tile / 2 % 2);
            const uint8_t* from = shared + (role * 2 + stage) * 2 * 64 * 128;
            fence();
#pragma unroll
            for (int k = 0; k < 64; k += 16)
                multiply<__nv_bfloat16, false, false>(d, T::from(from, k), T::from(from + 64 * 128, k), 1);
            commit();
            if (FAULT == OVERWRITTEN) {  // given back a tile too early
                arrive(&empty[role][stage]);
                wait<1>();
            } else {
                wait<1>();
                if (tile > 0) arrive(&empty[role][stage ^ 1]);
            }
        }
        wait<0>();
        pin(d);
        for (int i = 0; i < 32; ++i) out[role * 64 * 64 + row_of(i) * 64 + column_of(i)] = d[i];
    }
}
template __global__ void roles<NONE>(float*, const __nv_bfloat16*, const __nv_bfloat16*, int);
template __global__ void roles<OVERWRITTEN>(float*, const __nv_bfloat16*, const __nv_bfloat16*, int);
