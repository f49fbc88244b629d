// The tile scheduler of a kernel that can do without stream-K: with FIXUP = 0 every tile is computed whole, and none of
// the code for divided tiles is there. On few tiles that code costs more than it saves, without ever running: more
// instructions to fetch, more registers to keep.
#pragma once

#include "include/stream_k.cuh"

struct WholeTileScheduler {
    int clusters, cluster;  // how many there are, and this one
    int whole_tiles, steps;

    __device__ __forceinline__ WholeTileScheduler(int clusters, int cluster, int tiles, int steps)
        : clusters(clusters), cluster(cluster), whole_tiles(tiles), steps(steps) {}

    // Calls work(tile, first step, the step after the last) for each tile of this cluster.
    template <typename Work>
    __device__ __forceinline__ void for_each(Work work) const {
        for (int tile = cluster; tile < whole_tiles; tile += clusters) work(tile, 0, steps);
    }
};

template <int FIXUP, int WAYS>
struct SchedulerOf {
    using Type = StreamKScheduler<FIXUP, WAYS>;
};

template <int WAYS>
struct SchedulerOf<0, WAYS> {
    using Type = WholeTileScheduler;
};

template <int FIXUP, int WAYS>
using WorkScheduler = typename SchedulerOf<FIXUP, WAYS>::Type;
