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

}  // namespace ptx
