// The Tensor Memory Accelerator and the barriers that it reports to. One thread asks for a whole box of a
// matrix; the unit works out addresses, swizzles, fills what lies beyond the matrix with zeros, and counts
// the bytes that have come on an mbarrier in shared memory.
//
// An mbarrier completes a phase when all arrivals that it was made for and all bytes that were announced have
// come; then the next phase begins. A waiter names the parity of the phase that it waits for: 0, 1, 0, ...
// Coordinates are in elements, the column first, as the hardware counts dimensions from the innermost.
#pragma once

#include <cstdint>
#include <cuda.h>

namespace tma {

// mbarrier.init: for so many arrivals a phase.
__device__ __forceinline__ void init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals) : "memory");
}

// fence.mbarrier_init: the cluster, and the asynchronous proxy, see the barriers as they were made.
__device__ __forceinline__ void fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// fence.proxy.async: what this thread wrote to shared memory is there for TMA and wgmma.
__device__ __forceinline__ void fence_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// mbarrier.arrive.expect_tx: an arrival, and so many bytes are to come in this phase.
__device__ __forceinline__ void expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(barrier), "r"(bytes)
                 : "memory");
}

// mbarrier.arrive.
__device__ __forceinline__ void arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}

// mbarrier.arrive on the barrier at the same address in another block of the cluster. It releases what this block
// sees, no more: to release to the cluster, ptxas waits for all memory of the GPU (MEMBAR.ALL.GPU), and whoever only
// says that it has read a tile has written nothing that the other block reads.
__device__ __forceinline__ void arrive_in(uint32_t barrier, int block) {
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];}"
                 :
                 : "r"(barrier), "r"(block)
                 : "memory");
}

// mbarrier.try_wait.parity until that phase is complete.
__device__ __forceinline__ void wait(uint32_t barrier, int parity) {
    asm volatile("{.reg .pred done;"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;"
                 "@!done bra again;}"
                 :
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

// cp.async.bulk.tensor: the box whose first element is (row, col), from global to shared memory.
__device__ __forceinline__ void load(uint32_t to, const CUtensorMap& map, int row, int col, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :
                 : "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier)
                 : "memory");
}

// The same to the same address in each block of the cluster whose bit is set, and to its barrier.
__device__ __forceinline__ void load_multicast(uint32_t to, const CUtensorMap& map, int row, int col,
                                               uint32_t barrier, uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 :
                 : "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier), "h"(blocks)
                 : "memory");
}

// cp.async.bulk.tensor, from shared to global memory; what lies beyond the matrix is not stored.
__device__ __forceinline__ void store(const CUtensorMap& map, int row, int col, uint32_t from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :
                 : "l"(&map), "r"(col), "r"(row), "r"(from)
                 : "memory");
}

// cp.async.bulk.commit_group: this thread's stores since the last commit are a group.
__device__ __forceinline__ void commit_stores() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read: all but PENDING of its groups have read shared memory.
template <int PENDING>
__device__ __forceinline__ void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(PENDING) : "memory");
}

// prefetch.tensormap: fetch the map itself ahead of its first use.
__device__ __forceinline__ void prefetch(const CUtensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}

}  // namespace tma

// Where a loop stands in a ring of STAGES buffers: which one, and the parity of its phase.
template <int STAGES>
struct RingPlace {
    int stage = 0;
    int parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    __device__ __forceinline__ void skip(int steps) {
        stage += steps;
        parity ^= stage / STAGES & 1;
        stage %= STAGES;
    }
};
