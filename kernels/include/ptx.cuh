// Inline PTX, wrapped once. Each wrapper is one instruction and names it; what operands and
// fragments mean is in the PTX ISA manual, what they are used for in the kernels.
//
// The wrappers that touch shared memory are volatile and clobber memory: the compiler does not see
// these accesses, and must not move them, or ordinary ones, across each other or across a barrier.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ptx {

// cvta.to.shared: the 32-bit shared-space address that the instructions below take.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// No instruction: the pointer, which the compiler must have in registers here. It may not, say, keep
// one for each of several accesses at fixed distances from it.
__device__ __forceinline__ const float* hold(const float* pointer) {
    asm volatile("" : "+l"(pointer));
    return pointer;
}

// ld.shared: four floats, 16-byte aligned.
__device__ __forceinline__ float4 load_shared_4(uint32_t address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

__device__ __forceinline__ float load_shared(uint32_t address) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
    return v;
}

// st.shared: four floats, 16-byte aligned.
__device__ __forceinline__ void store_shared_4(uint32_t address, float4 v) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, float v) {
    asm volatile("st.shared.f32 [%0], %1;" : : "r"(address), "f"(v) : "memory");
}

// ld.global: a float, or zero, and nothing is read, where not `inside`.
__device__ __forceinline__ float load_global(const float* from, bool inside) {
    float v = 0.0f;
    asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.f32 %0, [%1];}"
                 : "+f"(v)
                 : "l"(from), "r"(static_cast<int>(inside)));
    return v;
}

// cp.async.ca.shared.global: copy 4 bytes past the registers; zeros, and nothing is read, where not
// `inside`.
__device__ __forceinline__ void cp_async_4(uint32_t to_shared, const void* from_global,
                                           bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(to_shared), "l"(from_global), "r"(inside ? 4 : 0)
                 : "memory");
}

// cp.async.cg.shared.global.L2::128B: copy 16 bytes past L1 and the registers; fetch 128 into L2.
__device__ __forceinline__ void cp_async_16(uint32_t to_shared, const void* from_global) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 :
                 : "r"(to_shared), "l"(from_global)
                 : "memory");
}

// cp.async.commit_group: close the group of copies issued since the last commit.
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// cp.async.wait_group: wait until at most PENDING of this thread's groups are still under way.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
}

// ldmatrix.x4: four 8x8 matrices of 16-bit elements; lanes 8i .. 8i+7 give the rows of matrix i.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&matrix)[4], uint32_t row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(row_address)
                 : "memory");
}

// ldmatrix.x2.trans: two 8x8 matrices, each transposed; lanes 0 .. 15 give the rows.
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&matrix)[2], uint32_t row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(matrix[0]), "=r"(matrix[1])
                 : "r"(row_address)
                 : "memory");
}

// mma.m16n8k16: d += a * b on the tensor cores, 16-bit inputs of type T, fp32 sums.
template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]);

template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4],
                                                            const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&d)[4], const uint32_t (&a)[4],
                                                     const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// mma.m16n8k8: the same with inputs of type .tf32, fp32 numbers of which the upper 19 bits count.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// cvt.rna.tf32.f32: the bits of an fp32 number, rounded to the nearest tf32 (ties away from zero).
__device__ __forceinline__ uint32_t cvt_rna_tf32(uint32_t bits) {
    uint32_t result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(__uint_as_float(bits)));
    return result;
}

}  // namespace ptx
