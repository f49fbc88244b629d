// What the warp groups of a block do differently: one brings tiles, the others multiply.
#pragma once

#include <cstdint>

namespace warpgroup {

// setmaxnreg: this warp group gives registers back, or waits until it can have so many a thread.
template <int REGISTERS>
__device__ __forceinline__ void keep_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}

template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(REGISTERS));
}

// bar.sync: the 128 threads of a group meet; barrier 0 is __syncthreads().
__device__ __forceinline__ void meet(int barrier) {
    asm volatile("bar.sync %0, 128;" : : "r"(barrier) : "memory");
}

}  // namespace warpgroup

namespace cluster {

// The block's number in its cluster.
__device__ __forceinline__ int rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// barrier.cluster: all threads of all its blocks meet. It orders no writes: that takes a fence of its own, as
// tma::fence_init() is one.
__device__ __forceinline__ void meet_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;"
                 "barrier.cluster.wait.aligned;" ::: "memory");
}

}  // namespace cluster
