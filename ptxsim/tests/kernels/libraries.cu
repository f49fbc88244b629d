// What kernels take from libraries: block primitives of CUB, cooperative groups.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
extern "C" __global__ void reduce(int* out, const int* in) {
    using R = cub::BlockReduce<int, 128>;
    __shared__ typename R::TempStorage t;
    int s = R(t).Sum(in[blockIdx.x * 128 + threadIdx.x]);
    if (threadIdx.x == 0) out[blockIdx.x] = s;
}
extern "C" __global__ void scan(int* out, const int* in) {
    using R = cub::BlockScan<int, 128>;
    __shared__ typename R::TempStorage t;
    int s;
    R(t).InclusiveSum(in[blockIdx.x * 128 + threadIdx.x], s);
    out[blockIdx.x * 128 + threadIdx.x] = s;
}
extern "C" __global__ void sort(int* out, const int* in) {
    using R = cub::BlockRadixSort<int, 128, 4>;
    __shared__ typename R::TempStorage t;
    int k[4];
    for (int i = 0; i < 4; ++i) k[i] = in[(blockIdx.x * 128 + threadIdx.x) * 4 + i];
    R(t).Sort(k);
    for (int i = 0; i < 4; ++i) out[(blockIdx.x * 128 + threadIdx.x) * 4 + i] = k[i];
}
extern "C" __global__ void coop(int* out, const int* in) {
    auto b = cg::this_thread_block();
    auto w = cg::tiled_partition<16>(b);
    int s = cg::reduce(w, in[blockIdx.x * 128 + threadIdx.x], cg::plus<int>());
    auto a = cg::coalesced_threads();
    b.sync();
    out[blockIdx.x * 128 + threadIdx.x] = s + a.size();
}
// Tiles of several warps: from sm_80 on their barriers lie in the system's part of shared memory, the kernel's own data do not.
extern "C" __global__ void coop_wide(int* out, const int* in) {
    __shared__ cg::block_tile_memory<256> memory;
    __shared__ int own[256];
    auto b = cg::this_thread_block(memory);
    auto w = cg::tiled_partition<64>(b);
    own[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    w.sync();
    int next = own[threadIdx.x ^ 63];
    int s = cg::reduce(w, next, cg::plus<int>());
    w.sync();
    out[blockIdx.x * 256 + threadIdx.x] = s + own[threadIdx.x];
}
// Memory that threads take from the device's heap and give back. Fault 1: beyond its end; 2: after it was given back; 3: twice.
extern "C" __global__ void heap(int* out, const int* in, int fault) {
    int* list = new int[4 + threadIdx.x % 3];
    for (int i = 0; i < 4; ++i) list[i] = in[blockIdx.x * 128 + threadIdx.x] + i;
    if (fault == 1) list[4 + threadIdx.x % 3] = 0;
    if (fault == 2) delete[] list;
    out[blockIdx.x * 128 + threadIdx.x] = list[0] + list[3];
    delete[] list;
    if (fault == 3) delete[] list;
    out[gridDim.x * 128 + blockIdx.x * 128 + threadIdx.x] = malloc(size_t(1) << 40) == nullptr;
}
// The whole grid meets between rounds; fault: it does not.
extern "C" __global__ void grid_sync(int* out, const int* in, int fault) {
    auto grid = cg::this_grid();
    int n = gridDim.x * 64, i = blockIdx.x * 64 + threadIdx.x;
    out[i] = in[i];
    for (int round = 0; round < 3; ++round) {
        if (!fault) grid.sync();
        out[(round + 1) * n + i] = out[round * n + n - 1 - i] + 1;
    }
}
// Not a library, but what reductions in many kernels look like.
extern "C" __global__ void softmax(float* out, const float* in, int n) {
    __shared__ float part[4];
    const float* row = in + blockIdx.x * n;
    float m = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, row[i]);
    for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_down_sync(~0u, m, d));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = m;
    __syncthreads();
    m = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    __syncthreads();
    float s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += __expf(row[i] - m);
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    s = part[0] + part[1] + part[2] + part[3];
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = __expf(row[i] - m) / s;
}
