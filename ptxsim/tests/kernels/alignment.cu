// Double buffers that an XOR of the address switches. 16 KB of shared memory: 8 KB that are kept, then two buffers of
// 4 KB. The XOR is right where the window's addresses begin at a multiple of 8 KB, as the alignment asks for.
#include <cstdint>

__device__ __forceinline__ uint32_t address_of(const void* p) {
    uint32_t a;
    asm volatile("{.reg .u64 x; cvta.to.shared.u64 x, %1; cvt.u32.u64 %0, x;}" : "=r"(a) : "l"(p));
    return a;
}

template <bool OF_THE_OFFSET>
__device__ __forceinline__ void run(float* out, const float* in, int steps) {
    __shared__ __align__(16384) float memory[4096];
    const uint32_t base = address_of(memory), t = threadIdx.x;
    for (int i = 0; i < 8; ++i) memory[t + 256 * i] = in[t + 256 * i];
    const uint32_t mine = 8192 + 4 * t, other = 8192 + 4 * (255 - t);
    uint32_t which = 0;
    float sum = 0;
    for (int step = 0; step < steps; ++step) {
        for (uint32_t i = 0; i < 4096; i += 1024) {
            const uint32_t to = OF_THE_OFFSET ? base + ((mine + i) ^ which) : (base + mine + i) ^ which;
            asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(in[t] + step + i) : "memory");
        }
        __syncthreads();
        for (uint32_t i = 0; i < 4096; i += 1024) {
            const uint32_t from = OF_THE_OFFSET ? base + ((other + i) ^ which) : (base + other + i) ^ which;
            float x;
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
            sum += x;
        }
        which ^= 4096;
    }
    __syncthreads();
    for (int i = 0; i < 8; ++i) out[t + 256 * i] = memory[t + 256 * i] + sum;
}

extern "C" __global__ void switch_address(float* out, const float* in, int steps) { run<false>(out, in, steps); }
extern "C" __global__ void switch_offset(float* out, const float* in, int steps) { run<true>(out, in, steps); }

extern "C" __global__ void places(unsigned* out) {
    __shared__ __align__(1024) float s[256];
    extern __shared__ __align__(1024) float dynamic[];
    s[threadIdx.x] = dynamic[threadIdx.x] = threadIdx.x;
    out[0] = address_of(s), out[1] = address_of(dynamic);
#if __CUDA_ARCH__ >= 800
    asm volatile("mov.u32 %0, %%reserved_smem_offset_begin;" : "=r"(out[2]));
    asm volatile("mov.u32 %0, %%reserved_smem_offset_end;" : "=r"(out[3]));
    asm volatile("mov.u32 %0, %%reserved_smem_offset_cap;" : "=r"(out[4]));
    asm volatile("mov.u32 %0, %%reserved_smem_offset_0;" : "=r"(out[5]));
#endif
}
