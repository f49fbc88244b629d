// A bound on how far clusters drift apart. Clusters that run at the same time share rows of A and columns of B. If one
// is ahead by more than L2 holds, the others read the same bytes from DRAM again. Here the steps over k are divided into
// intervals, and no cluster begins an interval before all clusters have begun the previous one. A cluster arrives at one
// interval and waits for the one before, which by then has nearly always been reached by all: a relaxed grid barrier.
#pragma once

#include <cstdint>

struct ClusterProgress {
    unsigned* counters;  // 3, zero before and after the kernel: arrivals at even and at odd intervals, clusters that ended
    unsigned clusters;   // all of them resident at the same time

    // Called by one thread of each cluster, for interval 0, 1, 2, ... It orders no memory accesses, for none depends on
    // another cluster's. Two counters suffice: who arrives at an interval has seen all arrive at the one before the last.
    __device__ __forceinline__ void advance(int interval) const {
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" : : "l"(&counters[interval & 1]) : "memory");
        if (interval == 0) return;
        const unsigned* previous = &counters[interval - 1 & 1];
        const unsigned all = clusters * ((interval - 1) / 2 + 1);
        unsigned arrived;
        do {
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(previous) : "memory");
        } while (arrived < all);
    }

    // Called by the same thread after its last interval. The last cluster resets the counters: no one waits any more.
    __device__ __forceinline__ void end() const {
        unsigned ended;
        asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ended) : "l"(&counters[2]) : "memory");
        if (ended + 1 < clusters) return;
        for (int i = 0; i < 3; ++i) {
            asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" : : "l"(&counters[i]) : "memory");
        }
    }
};
