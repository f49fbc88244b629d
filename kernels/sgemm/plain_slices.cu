// plain_slices: `plain`, whose steps over k the blocks of a cluster divide.
//
// The one idea it adds to `plain`: where tiles are few and k is long, the blocks of a cluster compute one tile together.
// A product of 2233 x 330 x 6979 has 105 tiles of 64 x 128. Each of 105 multiprocessors would have one block of four
// warps, which hide little of what they wait for, and 27 would have none. With three slices of 437 steps over k, two or
// three blocks share each multiprocessor, and none has more than 3 x 146 steps to multiply:
//
//                      steps   0 .. 144   145 .. 290   291 .. 436     the last of which has what k leaves over BK
//     one tile of C:           slice 0    slice 1      slice 2        blocks of one cluster
//                                 |          |            |
//                              its sums   its sums     its sums       each in its block's shared memory
//                                 |          |            |
//                              rows       rows         rows           of the total, from all three
//                              0 .. 20    21 .. 41     42 .. 63       (include/cluster_rows.cuh)
//
// For a block, its slice is a product of its own, of a shorter k; where a tile has fewer steps than slices, some
// multiply zeros. Blocks of `splitk` write their sums to L2 and read them back, and agree by counters in global memory.
//
// All else is in plain.cu, where SLICES appears twice: in which part of k is a block's, and in how its sums are stored.
//
// Template:  as in plain.cu; SLICES: blocks of a cluster, 2 to 8.
// Launch:    as in plain.cu; grid z over slices. A cluster's tile is BM (BN + 4) floats, which the ring must hold.
// Requires:  as `plain`; sm_90.
// Run:       make try KERNEL=sgemm_plain_slices_64x128_k3

#define IN_CLUSTERS __cluster_dims__(1, 1, SLICES)
#include "sgemm/plain.cu"
