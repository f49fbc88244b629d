// Kernels for the checks of memory: *_bad has a fault that is reported, *_good is the same without it. 64 threads a block.
#include <cstdint>

extern "C" {

// -- races in global memory: several blocks

__global__ void same_tile_bad(float* c, const float* a) { c[threadIdx.x] = 2.0f * a[threadIdx.x]; }
__global__ void same_tile_good(float* c, const float* a) {
    c[blockIdx.x * 64 + threadIdx.x] = 2.0f * a[threadIdx.x];
}

__global__ void accumulate_bad(float* c, const float* a) {
    float x = a[blockIdx.x * 64 + threadIdx.x];
    c[threadIdx.x] += x;
}
__global__ void accumulate_good(float* c, const float* a) {
    atomicAdd(&c[threadIdx.x], a[blockIdx.x * 64 + threadIdx.x]);
}

// one block reads what another overwrites
__global__ void overwrite_bad(float* c, const float* a) {
    float x = a[threadIdx.x];
    if (blockIdx.x == 0) x += c[threadIdx.x + 64];
    c[blockIdx.x * 64 + threadIdx.x] = x;
}
__global__ void overwrite_good(float* c, const float* a) {
    float x = a[threadIdx.x];
    x += c[threadIdx.x + 64 * blockIdx.x];
    c[blockIdx.x * 64 + threadIdx.x] = x;
}

// every block says the same
__global__ void flag_good(float* c, const float* a) {
    if (a[threadIdx.x] > 0) c[0] = 1.0f;
}

// -- split-K: the last block to take a ticket adds up the partial sums of all. c: 64 sums, a ticket, the partial sums

__device__ __forceinline__ void split(float* c, const float* a, bool fence, bool before, bool after) {
    __shared__ unsigned ticket;
    unsigned* tickets = reinterpret_cast<unsigned*>(c + 64);
    float* partial = c + 128;
    partial[blockIdx.x * 64 + threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x];
    if (fence) __threadfence();
    if (before) __syncthreads();
    if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1u);
    __syncthreads();
    if (ticket != gridDim.x - 1) return;
    if (after) __threadfence();
    float sum = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) sum += partial[block * 64 + threadIdx.x];
    c[threadIdx.x] = sum;
    if (threadIdx.x == 0) *tickets = 0;
}
__global__ void split_good(float* c, const float* a) { split(c, a, true, true, true); }
__global__ void split_reader_without_fence_good(float* c, const float* a) { split(c, a, true, true, false); }
__global__ void split_without_fence_bad(float* c, const float* a) { split(c, a, false, true, false); }
__global__ void split_without_barrier_bad(float* c, const float* a) { split(c, a, true, false, true); }

// thread 0 alone writes, fences and takes the ticket: no barrier is needed before it
__global__ void one_thread_good(float* c, const float* a) {
    __shared__ bool last;
    unsigned* tickets = reinterpret_cast<unsigned*>(c + 64);
    if (threadIdx.x == 0) {
        c[128 + blockIdx.x] = a[blockIdx.x * 64];
        __threadfence();
        last = atomicInc(tickets, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x < gridDim.x) c[threadIdx.x] = c[128 + threadIdx.x];
}

// -- stream-K: a block adds to the sums of the one before, for whose flag it waits. c: 64 sums, flags

__device__ __forceinline__ void stream(float* c, const float* a, int flag) {
    unsigned* flags = reinterpret_cast<unsigned*>(c + 64);
    if (blockIdx.x > 0) {
        if (threadIdx.x == 0) {
            unsigned seen = 0;
            while (!seen) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flags + flag) : "memory");
        }
        __syncthreads();
    }
    float before = blockIdx.x > 0 ? c[threadIdx.x] : 0.0f;
    c[threadIdx.x] = before + a[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(flags + blockIdx.x) : "memory");
}
__global__ void stream_good(float* c, const float* a) { stream(c, a, int(blockIdx.x) - 1); }
// waits for the block before the one before
__global__ void stream_bad(float* c, const float* a) { stream(c, a, max(int(blockIdx.x) - 2, 0)); }

// block 0 raises a flag, and another lowers it again by an ordinary store: after it has seen it, or before. Late: block 0
// writes once more after its release
__device__ __forceinline__ void flag(float* c, bool sees, bool late) {
    unsigned* flag = reinterpret_cast<unsigned*>(c + 64);
    if (threadIdx.x > 0 || blockIdx.x > 1) return;
    if (blockIdx.x == 0) {
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
        if (late) c[0] = 1;
    } else {
        unsigned seen = 0;
        while (sees && !seen) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        *flag = 0;
        if (late) c[0] = 2;
    }
}
__global__ void lowered_flag_good(float* c, const float*) { flag(c, true, false); }
__global__ void lowered_flag_unseen_bad(float* c, const float*) { flag(c, false, false); }
__global__ void lowered_flag_late_bad(float* c, const float*) { flag(c, true, true); }

// -- races in global memory: the threads of a block

__global__ void neighbour_bad(float* c, const float* a) {
    float* mine = c + blockIdx.x * 64;
    mine[threadIdx.x] = a[threadIdx.x];
    float x = mine[63 - threadIdx.x];
    c[gridDim.x * 64 + blockIdx.x * 64 + threadIdx.x] = x;
}
__global__ void neighbour_good(float* c, const float* a) {
    float* mine = c + blockIdx.x * 64;
    mine[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    float x = mine[63 - threadIdx.x];
    c[gridDim.x * 64 + blockIdx.x * 64 + threadIdx.x] = x;
}

__global__ void shift_bad(float* c, const float* a) {
    float* mine = c + blockIdx.x * 64;
    float x = mine[(threadIdx.x + 1) % 64];
    mine[threadIdx.x] = x + a[threadIdx.x];
}
__global__ void shift_good(float* c, const float* a) {
    float* mine = c + blockIdx.x * 64;
    float x = mine[(threadIdx.x + 1) % 64];
    __syncthreads();
    mine[threadIdx.x] = x + a[threadIdx.x];
}

// -- shared memory

__global__ void next_array_bad(float* c, const float* a) {
    __shared__ float first[48], second[64];
    if (threadIdx.x < 48) first[threadIdx.x] = a[threadIdx.x];
    second[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    c[blockIdx.x * 64 + threadIdx.x] = first[threadIdx.x] + second[63 - threadIdx.x];
}
__global__ void next_array_good(float* c, const float* a) {
    __shared__ float first[64], second[64];
    first[threadIdx.x] = a[threadIdx.x];
    second[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    c[blockIdx.x * 64 + threadIdx.x] = first[threadIdx.x] + second[63 - threadIdx.x];
}

__device__ __forceinline__ void vectors(float* c, const float* a, int from) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 16) {
        float4 x = *reinterpret_cast<const float4*>(&s[4 * threadIdx.x + from]);
        c[blockIdx.x * 64 + threadIdx.x] = x.x + x.y + x.z + x.w;
    }
}
__global__ void misaligned_vector_bad(float* c, const float* a) { vectors(c, a, int(a[0]) + 1); }
__global__ void misaligned_vector_good(float* c, const float* a) { vectors(c, a, int(a[0])); }

// half a block at one barrier, the other half at the next
__global__ void half_barrier_bad(float* c, const float* a) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    if (threadIdx.x < 32) __syncthreads();
    float x = s[63 - threadIdx.x];
    __syncthreads();
    c[blockIdx.x * 64 + threadIdx.x] = x;
}
__global__ void half_barrier_good(float* c, const float* a) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    float x = s[63 - threadIdx.x];
    __syncthreads();
    c[blockIdx.x * 64 + threadIdx.x] = x;
}

// one side volatile, the other not
__global__ void half_volatile_bad(float* c, const float* a) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    c[blockIdx.x * 64 + threadIdx.x] = *const_cast<volatile float*>(&s[63 - threadIdx.x]);
}
__global__ void half_volatile_good(float* c, const float* a) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    c[blockIdx.x * 64 + threadIdx.x] = *const_cast<volatile float*>(&s[63 - threadIdx.x]);
}
__global__ void both_volatile(float* c, const float* a) {
    __shared__ volatile float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    c[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void volatile_and_plain(float* c, const float* a) {
    __shared__ float s[64];
    volatile float* v = s;
    v[threadIdx.x] = a[threadIdx.x];
    c[blockIdx.x * 64 + threadIdx.x] = v[63 - threadIdx.x];
    s[threadIdx.x] = a[threadIdx.x + 64];  // the plain store
    __syncthreads();
    c[256 + blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void volatile_pairs(float* c, const float* a, int synced) {
    volatile float* v = c + blockIdx.x * 64;
    const int i = threadIdx.x;
    v[i] = a[i];
    if (synced) __syncwarp();
    const float x = v[i ^ 1];
    if (synced) __syncwarp();
    v[i] = x;
}

// -- memory that nobody wrote, constants

__global__ void scaled(float* c, const float* a, float beta) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    c[i] = a[i] + beta * c[i];
}
__global__ void written_first(float* c, const float* a) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    c[i] = a[i];
    c[i] = c[i] + 1;
}

__constant__ float taps[3];
__constant__ float preset[2] = {0.5f, 0.25f};
__global__ void convolve(float* c, const float* a) {
    const int i = threadIdx.x;
    float sum = preset[i & 1];
    for (int k = 0; k < 3; ++k) sum += taps[k] * a[i + k];
    c[i] = sum;
}

// -- work for the watch over races that grows with n

__global__ void many_atomics(float* c, const float* a, int n) {
    __shared__ int bins[64];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = 0; i < n; ++i) atomicAdd(&bins[(threadIdx.x * 7 + i) % 64], 1);
    __syncthreads();
    c[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];
}

// two buffers by turns, filled by thread 0's bulk copies, whose arrival an mbarrier signals
__global__ void many_phases(float* c, const float* a, int n) {
    __shared__ __align__(16) float s[2][64];
    __shared__ __align__(8) uint64_t full[2], empty[2];
    const uint32_t data = static_cast<uint32_t>(__cvta_generic_to_shared(s));
    const uint32_t filled = static_cast<uint32_t>(__cvta_generic_to_shared(full));
    const uint32_t read = static_cast<uint32_t>(__cvta_generic_to_shared(empty));
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(filled + 8 * i));
            asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(read + 8 * i));
        }
    }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        const uint32_t which = i % 2, phase = i / 2 % 2;
        if (threadIdx.x == 0) {
            asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W;}" ::"r"(
                             read + 8 * which),
                         "r"(phase ^ 1)
                         : "memory");
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" ::"r"(filled + 8 * which) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(
                             data + 256 * which),
                         "l"(a), "r"(filled + 8 * which)
                         : "memory");
        }
        __syncwarp();
        asm volatile("{.reg .pred p; V: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra V;}" ::"r"(
                         filled + 8 * which),
                     "r"(phase)
                     : "memory");
        sum += s[which][63 - threadIdx.x];
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(read + 8 * which) : "memory");
    }
    c[blockIdx.x * 64 + threadIdx.x] = sum;
}
}

extern __shared__ int one_place[];
extern __shared__ int same_place[];
extern "C" __global__ void two_extern_arrays(float* c, const float* a) {
    one_place[threadIdx.x] = 1;
    same_place[threadIdx.x] = 2;
    c[threadIdx.x] = one_place[threadIdx.x];
}
