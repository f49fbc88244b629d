// Catalogue kernels in tiles of one warp and of eight, whose stores to shared memory have no bank conflict within a warp, and
// one kernel that is wrong on purpose: it stores no tile of B but the first.

#include "sgemm/at_swizzle.cu"
#include "sgemm/blocktile_2d.cu"

#define GEMM(NAME, ...)                                                                                            \
    template __global__ void NAME<__VA_ARGS__>(int, int, int, float, const float*, int, const float*, int, float,  \
                                               float*, int);

GEMM(sgemm_blocktile_2d, 64, 32, 8, 8, 8, 0, false, 0, 0)
GEMM(sgemm_blocktile_2d, 128, 128, 8, 8, 8, 0, false, 0, 0)
GEMM(sgemm_at_swizzle, 128, 128, 16, Order::rows)
GEMM(sgemm_at_swizzle, 128, 128, 16, Order::rows, false)
