// mbarriers, the barriers in shared memory that TMA reports to, and the state of a pipeline that is built on them.
//
// A phase of an mbarrier completes when all its arrivals and all the bytes announced for it have come; the next phase
// then begins. A thread waits for a phase by its parity: 0 for the first, then 1, 0, 1, ... The parity only
// distinguishes a phase from its neighbours, so a waiter must never be more than one phase behind.
#pragma once

#include <cstdint>

namespace mbarrier {

// mbarrier.init: every phase expects this many arrivals.
__device__ __forceinline__ void init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals) : "memory");
}

// fence.mbarrier_init: makes the initialized barriers visible to the cluster and to the asynchronous proxy.
__device__ __forceinline__ void fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// mbarrier.arrive.expect_tx: arrives, and announces that this many bytes will come in the current phase.
__device__ __forceinline__ void arrive_expect_tx(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(barrier), "r"(bytes)
                 : "memory");
}

// mbarrier.arrive.
__device__ __forceinline__ void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}

// mbarrier.arrive on the barrier at the same address in another block of the cluster. Its scope is the CTA, not the
// cluster: for a release at cluster scope ptxas emits MEMBAR.ALL.GPU, which waits for all outstanding memory accesses,
// and a consumer that has only read a tile has written nothing that the other block will read.
__device__ __forceinline__ void arrive_remote(uint32_t barrier, int block) {
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];}"
                 :
                 : "r"(barrier), "r"(block)
                 : "memory");
}

// mbarrier.try_wait.parity, repeated until the phase of that parity has completed.
__device__ __forceinline__ void wait(uint32_t barrier, int phase) {
    asm volatile("{.reg .pred done;"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
                 "@!done bra again;}"
                 :
                 : "r"(barrier), "r"(phase)
                 : "memory");
}

}  // namespace mbarrier

// A producer's or consumer's position in a pipeline of STAGES buffers: the stage, and the parity of its current phase.
template <int STAGES>
struct PipelineState {
    int stage = 0;
    int phase = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }

    __device__ __forceinline__ void advance(int steps) {
        stage += steps;
        phase ^= stage / STAGES & 1;
        stage %= STAGES;
    }
};
