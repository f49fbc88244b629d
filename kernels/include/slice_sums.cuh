// The sum of what SLICES blocks of a cluster, each over its part of k, have computed of one tile. Every block keeps the
// total of a part of the tile: the same part of each thread's sums, PIECE of them; the last part may be shorter. A
// block sends its sums of the other parts straight to the shared memory of the blocks that keep them, through
// distributed shared memory.
//
//     with cluster::store_4                                      with cluster::store_async_4
//     cluster::sync()    the inboxes of all blocks are free      the mbarriers of all blocks are made
//     send                                                       send
//     cluster::sync()    all sums have come                      mbarrier::wait, for BYTES; the inbox holds nothing else
//     receive                                                    receive
//
// Totals are added in an order that is fixed for each part, so that the same problem gives the same bits.
//
// The inbox has BYTES bytes at the same address in every block, 16 consecutive ones for each of THREADS threads: first
// what the next slice sends, then the one after it, and so on.
#pragma once

#include "include/ptx.cuh"

template <int SLICES, int THREADS, int SUMS>
struct SliceSums {
    static constexpr int FOURS = (SUMS / 4 + SLICES - 1) / SLICES, PIECE = FOURS * 4;
    static constexpr int BYTES = (SLICES - 1) * PIECE * THREADS * 4;
    static_assert(SUMS % 4 == 0, "sums cross by four");

    uint32_t inbox;  // of this thread, below THREADS
    int slice;       // this block's

    // Where sums of the slice that is `distance` after the receiver's lie, 1 to SLICES - 1.
    __device__ __forceinline__ uint32_t place(uint32_t distance, int four) const {
        return inbox + ((distance - 1) * FOURS + four) * THREADS * 16;
    }

    // The sums of other blocks' parts leave, and those of this block's part begin `total`. store(address, s, four sums):
    // writes to the shared memory of the block of slice `s`.
    template <typename Store>
    __device__ __forceinline__ void send(const float (&sum)[SUMS], float (&total)[PIECE], Store store) const {
#pragma unroll
        for (int s = 0; s < SLICES; ++s) {
#pragma unroll
            for (int four = 0; four < FOURS; ++four) {
                constexpr float ZEROS[4] = {};  // beyond the tile
                const float* from = s * PIECE + four * 4 < SUMS ? &sum[s * PIECE + four * 4] : ZEROS;
                if (s == slice) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) total[four * 4 + i] = from[i];
                } else {
                    const uint32_t distance = static_cast<uint32_t>(slice - s + SLICES) % SLICES;
                    store(place(distance, four), s, make_float4(from[0], from[1], from[2], from[3]));
                }
            }
        }
    }

    // The sums of other blocks are added to `total`.
    __device__ __forceinline__ void receive(float (&total)[PIECE]) const {
#pragma unroll
        for (int distance = 1; distance < SLICES; ++distance) {
#pragma unroll
            for (int four = 0; four < FOURS; ++four) {
                const float4 more = ptx::load_shared_4(place(distance, four));
                total[four * 4] += more.x, total[four * 4 + 1] += more.y;
                total[four * 4 + 2] += more.z, total[four * 4 + 3] += more.w;
            }
        }
    }
};
