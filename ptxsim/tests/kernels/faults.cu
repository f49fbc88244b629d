// Each fault, next to the same kernel without it: *_bad and *_good. One block of 64 threads unless a test says more.
#include <cassert>
#include <cstdint>

extern "C" {

__global__ void global_bounds_bad(float* a, int n) { a[threadIdx.x + 1] = 1.0f; }
__global__ void global_bounds_good(float* a, int n) { a[threadIdx.x] = 1.0f; }

__global__ void shared_bounds_bad(float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x + n - 63] = 1.0f;
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x % 32 + 1];
}
__global__ void shared_bounds_good(float* a, int n) {
    __shared__ float s[64];
    s[(threadIdx.x + n - 63) % 64] = 1.0f;
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x % 32 + 1];
}

__global__ void local_bounds_bad(int* a, int n) {
    int t[8];
    for (int i = 0; i < 8; ++i) t[i] = a[threadIdx.x] + i;
    a[threadIdx.x] = t[threadIdx.x / 4];
}
__global__ void local_bounds_good(int* a, int n) {
    int t[8];
    for (int i = 0; i < 8; ++i) t[i] = a[threadIdx.x] + i;
    a[threadIdx.x] = t[threadIdx.x / 8];
}

__global__ void misaligned_bad(float* a, int n) {
    *reinterpret_cast<float4*>(&a[threadIdx.x % 8 * 4 + n - 63]) = make_float4(1, 2, 3, 4);
}
__global__ void misaligned_good(float* a, int n) {
    *reinterpret_cast<float4*>(&a[threadIdx.x % 8 * 4 + n - 64]) = make_float4(1, 2, 3, 4);
}

__global__ void unwritten_bad(float* a, int n) {
    __shared__ float s[64];
    if (threadIdx.x != 5) s[threadIdx.x] = 1.0f;
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void unwritten_good(float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = 1.0f;
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void race_raw_bad(float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    a[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void race_raw_good(float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void race_war_bad(float* a, int n) {
    __shared__ float s[64];
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        s[threadIdx.x] = a[threadIdx.x] + i;
        __syncthreads();
        sum += s[63 - threadIdx.x];
    }
    a[threadIdx.x] = sum;
}
__global__ void race_war_good(float* a, int n) {
    __shared__ float s[64];
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        s[threadIdx.x] = a[threadIdx.x] + i;
        __syncthreads();
        sum += s[63 - threadIdx.x];
        __syncthreads();
    }
    a[threadIdx.x] = sum;
}

__global__ void race_waw_bad(float* a, int n) {
    __shared__ float s[32];
    s[threadIdx.x % 32] = threadIdx.x;
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x % 32];
}
__global__ void race_waw_good(float* a, int n) {
    __shared__ float s[32];
    s[threadIdx.x % 32] = 7.0f;  // the same value from all: harmless
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x % 32];
}

// a reduction in one warp, with and without the warp's barrier
__global__ void warp_race_bad(float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int d = 16; d; d /= 2) {
            s[threadIdx.x] += s[threadIdx.x + d];
        }
    }
    __syncthreads();
    a[threadIdx.x] = s[0];
}
__global__ void warp_race_good(float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int d = 16; d; d /= 2) {
            float x = s[threadIdx.x + d];
            __syncwarp();
            s[threadIdx.x] += x;
            __syncwarp();
        }
    }
    __syncthreads();
    a[threadIdx.x] = s[0];
}

__global__ void barrier_exit_bad(float* a, int n) {
    __shared__ float s[64];
    if (threadIdx.x >= 40) return;
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[39 - threadIdx.x];
}
__global__ void barrier_exit_good(float* a, int n) {
    __shared__ float s[64];
    if (threadIdx.x < 40) s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 40) a[threadIdx.x] = s[39 - threadIdx.x];
}

__global__ void deadlock_bad(float* a, int n) {
    if (threadIdx.x < 32) {
        asm volatile("bar.sync 1;");
        a[threadIdx.x] = 1;
    } else {
        asm volatile("bar.sync 2;");
        a[threadIdx.x] = 2;
    }
}
__global__ void deadlock_good(float* a, int n) {
    if (threadIdx.x < 32) {
        asm volatile("bar.sync 1, 32;");
        a[threadIdx.x] = 1;
    } else {
        asm volatile("bar.sync 2, 32;");
        a[threadIdx.x] = 2;
    }
}

__global__ void split_barrier_bad(float* a, int n) {
    if (threadIdx.x % 2) {
        asm volatile("bar.sync 0;");
        a[threadIdx.x] = 1;
    } else {
        asm volatile("bar.sync 0;");
        a[threadIdx.x] = 2;
    }
}
__global__ void split_barrier_good(float* a, int n) {
    if (threadIdx.x < 32) {
        asm volatile("bar.sync 0;");
        a[threadIdx.x] = 1;
    } else {
        asm volatile("bar.sync 0;");
        a[threadIdx.x] = 2;
    }
}

__device__ __forceinline__ void copy_async(float* to, const float* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
}
__global__ void early_read_bad(float* a, int n) {
    __shared__ float s[64];
    copy_async(&s[threadIdx.x], &a[threadIdx.x]);
    asm volatile("cp.async.commit_group;" ::: "memory");
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void early_read_good(float* a, int n) {
    __shared__ float s[64];
    copy_async(&s[threadIdx.x], &a[threadIdx.x]);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    a[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void copy_race_bad(float* a, int n) {
    __shared__ float s[64];
    copy_async(&s[threadIdx.x], &a[threadIdx.x]);
    asm volatile("cp.async.wait_all;" ::: "memory");
    a[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void copy_race_good(float* a, int n) {
    __shared__ float s[64];
    copy_async(&s[threadIdx.x], &a[threadIdx.x]);
    asm volatile("cp.async.wait_all;" ::: "memory");
    a[threadIdx.x] = s[threadIdx.x];
}

// three buffers in rotation; the barrier makes each thread's copies visible, and frees the buffer read a step ago
__device__ __forceinline__ void pipeline(float* a, int n, bool barrier) {
    __shared__ float s[3][64];
    for (int stage = 0; stage < 2; ++stage) {
        copy_async(&s[stage][threadIdx.x], &a[threadIdx.x]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        if (barrier) __syncthreads();
        sum += s[i % 3][63 - threadIdx.x];
        copy_async(&s[(i + 2) % 3][threadIdx.x], &a[threadIdx.x]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    __syncthreads();
    a[threadIdx.x] = sum;
}
__global__ void pipeline_bad(float* a, int n) { pipeline(a, n, false); }
__global__ void pipeline_good(float* a, int n) { pipeline(a, n, true); }

__global__ void endless_bad(int* a, int n) {
    while (*(volatile int*)a == 0) {
    }
}
__global__ void endless_good(int* a, int n) {
    if (threadIdx.x == 63) *(volatile int*)a = 1;
    while (*(volatile int*)a == 0) {
    }
}

__global__ void assert_bad(int* a, int n) { assert(a[threadIdx.x] != 17 || n == 0); }
__global__ void assert_good(int* a, int n) { assert(a[threadIdx.x] != -1 || n == 0); }

__global__ void trap_bad(int* a, int n) {
    if (a[threadIdx.x] == 3) __trap();
}
__global__ void trap_good(int* a, int n) {
    if (a[threadIdx.x] == -3) __trap();
}

__global__ void dynamic_bounds_bad(float* a, int n) {
    extern __shared__ float dynamic[];
    dynamic[threadIdx.x * 4 + 1] = 1;
    __syncthreads();
    a[threadIdx.x] = dynamic[threadIdx.x * 4 + 1];
}
__global__ void dynamic_bounds_good(float* a, int n) {
    extern __shared__ float dynamic[];
    dynamic[threadIdx.x] = 1;
    __syncthreads();
    a[threadIdx.x] = dynamic[threadIdx.x];
}
}
