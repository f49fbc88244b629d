// Loops of FFMA on registers, alone or with a few loads from shared memory or copies to it beside them: what each takes of
// a scheduler's issue cycles. Each warp notes the clock before and after its loop.
//
// The registers of a loop's a, b and c, and where ptxas keeps operands with .reuse, stand in the machine code; measure.py
// records them.

#include <cstdint>
#include <utility>

constexpr int VALUES = 16;        // of a, and of b
constexpr int LOAD_BYTES = 1024;  // between the loads of an iteration
constexpr int RING = 16;          // bulk copies on their way
constexpr int BULK_BYTES = 1024;
constexpr int SHARED_BYTES = 32768;

extern __shared__ __align__(128) unsigned char tile[];

struct Step {  // c[c] += a[a] * b[b]
    int c, a, b;
};

// ---- orders: which registers the k-th FFMA reads ----

// The same a and b throughout: of each FFMA only c is read.
struct Sums {
    static constexpr int accumulators = 64, count = 128;
    __host__ __device__ static constexpr Step at(int k) { return {k % 64, 0, 1}; }
};

// Outer product, row by row, or there and back; c in the bank of b (SHIFT 0) or in the other one (1).
template <int ROWS, int COLUMNS, bool SNAKE, int SHIFT, int TIMES = 1>
struct Outer {
    static constexpr int accumulators = ROWS * COLUMNS, count = ROWS * COLUMNS * TIMES;
    __host__ __device__ static constexpr Step at(int k) {
        const int row = k / COLUMNS % ROWS, column = k % COLUMNS;
        const int j = SNAKE && row % 2 ? COLUMNS - 1 - column : column;
        return {row * COLUMNS + (j ^ SHIFT), row, j};
    }
};

// Random registers; a stays with a chance of KEEP percent, b with half of it.
template <int SEED, int KEEP>
struct Random {
    static constexpr int accumulators = 64, count = 128;
    __host__ __device__ static constexpr uint32_t hash(int k, int which) {
        uint32_t h = 0x9e3779b9u * (SEED * 1000 + k * 4 + which + 1);
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        return h ^ h >> 16;
    }
    __host__ __device__ static constexpr int kept(int k, int which, int percent) {
        while (k > 0 && static_cast<int>(hash(k, which) % 100) < percent) --k;
        return hash(k, which + 2) % 8;
    }
    __host__ __device__ static constexpr Step at(int k) {
        return {k % 16 * 4 + static_cast<int>(hash(k, 1) / 128 % 4), kept(k, 0, KEEP), kept(k, 1, KEEP / 2)};
    }
};

// ---- what stands beside the FFMAs ----

enum Beside { nothing, load_32, load_64, load_128, copy_4, copy_16, bulk };

struct Place {  // of a thread's loads and copies
    uint32_t shared, barriers;
    const char* global;
};

template <Beside BESIDE>
__device__ __forceinline__ void beside(const Place& p, int n, int iteration, float (&r)[4]) {
    const uint32_t at = p.shared + n * LOAD_BYTES;
    const char* from = p.global + n * LOAD_BYTES;
    if constexpr (BESIDE == load_32)
        asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(r[0]) : "r"(at));
    if constexpr (BESIDE == load_64)
        asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];" : "=f"(r[0]), "=f"(r[1]) : "r"(at));
    if constexpr (BESIDE == load_128)
        asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
                     : "r"(at));
    if constexpr (BESIDE == copy_4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(at), "l"(from));
    if constexpr (BESIDE == copy_16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(at), "l"(from));
    if constexpr (BESIDE == bulk) {
        if (threadIdx.x == 0) {
            const uint32_t barrier = p.barriers + iteration % RING * 8;
            const uint32_t parity = (iteration / RING + 1) % 2;  // of the copy before; a new barrier's is 1
            uint32_t done = 0;
            while (!done)
                asm volatile(
                    "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                    : "=r"(done)
                    : "r"(barrier), "r"(parity)
                    : "memory");
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(barrier), "r"(BULK_BYTES));
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                :
                : "r"(at + iteration % RING * BULK_BYTES), "l"(from), "r"(BULK_BYTES), "r"(barrier)
                : "memory");
        }
    }
}

__device__ __forceinline__ void read(const float4* from, float* to) {
    asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "l"(from));
}

// The k-th FFMA; before the first one stand COUNT loads or copies.
template <class Order, Beside BESIDE, int COUNT, int K>
__device__ __forceinline__ void step(float* c, const float* a, const float* b, float (&r)[8][4], const Place& p, int iteration) {
    if constexpr (K == 0)
#pragma unroll
        for (int n = 0; n < COUNT; ++n) beside<BESIDE>(p, n, iteration, r[n]);
    constexpr Step s = Order::at(K);
    asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(c[s.c]) : "f"(a[s.a]), "f"(b[s.b]));
}

template <class Order, Beside BESIDE, int COUNT, int... K>
__device__ __forceinline__ void steps(float* c, const float* a, const float* b, float (&r)[8][4], const Place& p, int iteration,
                                      std::integer_sequence<int, K...>) {
    (step<Order, BESIDE, COUNT, K>(c, a, b, r, p, iteration), ...);
}

// `in`: a, b and c of each thread. `offsets`: of each thread in shared memory and in `from`, bytes. `clocks`:
// of each warp, before and after. REPEAT: times that the order stands in the loop's body.
template <class Order, Beside BESIDE, int COUNT, int REPEAT>
__device__ __forceinline__ void loop(const float4* in, const int* offsets, const char* from, int iterations,
                                     long long* clocks, float4* out) {
    float a[VALUES], b[VALUES], c[Order::accumulators], r[8][4] = {};
    in += threadIdx.x * ((2 * VALUES + Order::accumulators) / 4);  // own ones: what all share goes to uniform registers
#pragma unroll
    for (int i = 0; i < VALUES; i += 4) {
        read(in + i / 4, a + i);
        read(in + (VALUES + i) / 4, b + i);
    }
#pragma unroll
    for (int i = 0; i < Order::accumulators; i += 4) read(in + (2 * VALUES + i) / 4, c + i);
    const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    const Place p = {base + 128 + offsets[threadIdx.x], base, from + offsets[blockDim.x + threadIdx.x]};
    for (int i = threadIdx.x; i < SHARED_BYTES / 4; i += blockDim.x)
        reinterpret_cast<float*>(tile)[i] = static_cast<float>(i);
    if (BESIDE == bulk) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (BESIDE == bulk && threadIdx.x == 0) {
        for (int i = 0; i < RING; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(base + 8 * i));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const long long before = clock64();
#pragma unroll 1
    for (int i = 0; i < iterations; ++i)
#pragma unroll
        for (int n = 0; n < REPEAT; ++n)
            steps<Order, BESIDE, COUNT>(c, a, b, r, p, i, std::make_integer_sequence<int, Order::count>());
    const long long after = clock64();
    if (BESIDE == copy_4 || BESIDE == copy_16) asm volatile("cp.async.wait_all;" ::: "memory");
    if (BESIDE == bulk && threadIdx.x == 0)
        for (int i = max(0, iterations - RING); i < iterations; ++i) {
            uint32_t done = 0;
            while (!done)
                asm volatile(
                    "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                    : "=r"(done)
                    : "r"(base + i % RING * 8), "r"(i / RING % 2)
                    : "memory");
        }
    if (threadIdx.x % 32 == 0) {
        clocks[threadIdx.x / 16] = before;
        clocks[threadIdx.x / 16 + 1] = after;
    }
    float4* own = out + threadIdx.x * (Order::accumulators / 4 + 8);
#pragma unroll
    for (int i = 0; i < Order::accumulators; i += 4) own[i / 4] = make_float4(c[i], c[i + 1], c[i + 2], c[i + 3]);
#pragma unroll
    for (int n = 0; n < 8; ++n) own[Order::accumulators / 4 + n] = make_float4(r[n][0], r[n][1], r[n][2], r[n][3]);
}

#define LOOP(NAME, BESIDE, COUNT, REPEAT, ...)                                                                       \
    extern "C" __global__ void NAME(const float4* in, const int* offsets, const char* from, int iterations,          \
                                    long long* clocks, float4* out) {                                                \
        loop<__VA_ARGS__, BESIDE, COUNT, REPEAT>(in, offsets, from, iterations, clocks, out);                \
    }
#define ORDER(NAME, ...) LOOP(NAME, nothing, 0, 1, __VA_ARGS__)

ORDER(sums, Sums)

#define OUTER(NAME, ROWS, COLUMNS, TIMES)                                          \
    ORDER(NAME##_rows, Outer<ROWS, COLUMNS, false, 0, TIMES>)                      \
    ORDER(NAME##_rows_shifted, Outer<ROWS, COLUMNS, false, 1, TIMES>)              \
    ORDER(NAME##_snake, Outer<ROWS, COLUMNS, true, 0, TIMES>)                      \
    ORDER(NAME##_snake_shifted, Outer<ROWS, COLUMNS, true, 1, TIMES>)
OUTER(outer_8x8, 8, 8, 2)
OUTER(outer_8x16, 8, 16, 1)
OUTER(outer_12x16, 12, 16, 1)

#define RANDOM(KEEP)                            \
    ORDER(random_keep_##KEEP##_1, Random<1, KEEP>) \
    ORDER(random_keep_##KEEP##_2, Random<2, KEEP>) \
    ORDER(random_keep_##KEEP##_3, Random<3, KEEP>) \
    ORDER(random_keep_##KEEP##_4, Random<4, KEEP>)
RANDOM(0)
RANDOM(30)
RANDOM(60)
RANDOM(90)

// longer bodies: do instructions come fast enough?
using Full = Outer<8, 8, true, 1, 2>;  // two operands an FFMA, one of each bank
LOOP(body_256, nothing, 0, 2, Full)
LOOP(body_512, nothing, 0, 4, Full)
LOOP(body_1024, nothing, 0, 8, Full)
LOOP(body_2048, nothing, 0, 16, Full)
LOOP(body_4096, nothing, 0, 32, Full)

// ffma_machine_code.py moves the loads of those called burst and spread: ptxas puts them where it likes
#define LOADS(BITS, COUNT)                                          \
    LOOP(load_##BITS##_##COUNT, load_##BITS, COUNT, 1, Full)         \
    LOOP(load_##BITS##_##COUNT##_burst, load_##BITS, COUNT, 1, Full) \
    LOOP(load_##BITS##_##COUNT##_spread, load_##BITS, COUNT, 1, Full)
#define ALL_LOADS(BITS) \
    LOADS(BITS, 1)      \
    LOADS(BITS, 2)      \
    LOADS(BITS, 4)      \
    LOADS(BITS, 6)      \
    LOADS(BITS, 8)      \
    LOOP(load_##BITS##_4_sums, load_##BITS, 4, 1, Sums)
ALL_LOADS(32)
ALL_LOADS(64)
ALL_LOADS(128)
LOOP(copy_4_1, copy_4, 1, 1, Full)
LOOP(copy_4_2, copy_4, 2, 1, Full)
LOOP(copy_4_4, copy_4, 4, 1, Full)
LOOP(copy_16_1, copy_16, 1, 1, Full)
LOOP(copy_16_2, copy_16, 2, 1, Full)
LOOP(copy_16_4, copy_16, 4, 1, Full)
LOOP(bulk_1, bulk, 1, 1, Full)

// ffma_orders.py writes the FFMAs of these
#define OWN(N) ORDER(own_##N, Outer<8, 8, false, 0, 2>)
#define OWNS(TENS) \
    OWN(TENS##0) OWN(TENS##1) OWN(TENS##2) OWN(TENS##3) OWN(TENS##4) \
    OWN(TENS##5) OWN(TENS##6) OWN(TENS##7) OWN(TENS##8) OWN(TENS##9)
OWNS(0) OWNS(1) OWNS(2) OWNS(3) OWNS(4) OWNS(5)
