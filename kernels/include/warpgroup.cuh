// What warp-specialized kernels need besides the pipeline: register reallocation, named barriers, and the cluster
// barrier.
#pragma once

#include <cstdint>

namespace warpgroup {

// setmaxnreg.dec: lowers this warp group's limit to REGISTERS a thread and returns the rest to the block's pool.
template <int REGISTERS>
__device__ __forceinline__ void reg_dealloc() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}

// setmaxnreg.inc: raises the limit to REGISTERS a thread, and waits until the pool has that many.
template <int REGISTERS>
__device__ __forceinline__ void reg_alloc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}

// bar.sync for the 128 threads of a warp group, on a named barrier; barrier 0 belongs to __syncthreads().
__device__ __forceinline__ void sync(int barrier) {
    asm volatile("bar.sync %0, 128;" : : "r"(barrier) : "memory");
}

}  // namespace warpgroup

namespace cluster {

// The rank of this block in its cluster.
__device__ __forceinline__ int rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// barrier.cluster.arrive.relaxed: it orders no writes, which takes a fence of its own, such as mbarrier::fence_init().
__device__ __forceinline__ void arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// barrier.cluster.wait: until every thread of every block in the cluster has arrived.
__device__ __forceinline__ void wait() {
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// barrier.cluster.arrive and wait: every thread of the cluster has arrived, and what each wrote before is visible.
__device__ __forceinline__ void sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// st.shared::cluster: four floats to this shared address in another block of the cluster, 16-byte aligned.
__device__ __forceinline__ void store_4(uint32_t address, int block, float4 v) {
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};}"
                 :
                 : "r"(address), "r"(block), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

// st.async: the same, and the 16 bytes count on the mbarrier at `barrier` in that block. Who waits for its phase sees
// them; nothing else orders them, and the thread that sends them waits for nothing.
__device__ __forceinline__ void store_async_4(uint32_t address, int block, float4 v, uint32_t barrier) {
    asm volatile("{.reg .b32 there, bar; mapa.shared::cluster.u32 there, %0, %1; mapa.shared::cluster.u32 bar, %6, %1;"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%2, %3, %4, %5}, [bar];}"
                 :
                 : "r"(address), "r"(block), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
                 : "memory");
}

}  // namespace cluster
