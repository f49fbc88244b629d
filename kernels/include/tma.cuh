// The Tensor Memory Accelerator. One thread requests a whole box of a matrix; the unit computes the addresses, applies
// the swizzle, fills elements beyond the matrix with zeros, and counts the bytes that have arrived on an mbarrier.
//
// Coordinates are in elements. The instructions take the column first, since the hardware counts dimensions from the
// innermost; the wrappers take the row first.
#pragma once

#include <cstdint>
#include <cuda.h>

#include "include/mbarrier.cuh"

namespace tma {

// fence.proxy.async: makes this thread's writes to shared memory visible to the asynchronous proxy, which TMA and wgmma
// read through.
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// cp.async.bulk.tensor, from global to shared memory: the box whose first element is (row, col).
__device__ __forceinline__ void load(uint32_t to, const CUtensorMap& map, int row, int col, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :
                 : "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier)
                 : "memory");
}

// The same with multicast: the box goes to the same address, and its bytes count on the barrier at the same address, in
// each block of the cluster whose bit is set in `blocks`.
__device__ __forceinline__ void load_multicast(uint32_t to, const CUtensorMap& map, int row, int col,
                                               uint32_t barrier, uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 :
                 : "r"(to), "l"(&map), "r"(col), "r"(row), "r"(barrier), "h"(blocks)
                 : "memory");
}

// cp.async.bulk.tensor, from shared to global memory; elements beyond the matrix are not stored.
__device__ __forceinline__ void store(const CUtensorMap& map, int row, int col, uint32_t from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :
                 : "l"(&map), "r"(col), "r"(row), "r"(from)
                 : "memory");
}

// cp.async.bulk.commit_group: closes the group of stores that this thread has issued since the last commit.
__device__ __forceinline__ void store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read: waits until all but the last PENDING groups have read their shared memory.
template <int PENDING>
__device__ __forceinline__ void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(PENDING) : "memory");
}

// prefetch.tensormap: fetches the descriptor itself before its first use.
__device__ __forceinline__ void prefetch_descriptor(const CUtensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}

}  // namespace tma
