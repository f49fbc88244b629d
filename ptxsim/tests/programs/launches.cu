// Ways to launch: clusters by attribute with distributed shared memory, cooperative, libraries; a reset in between.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstring>

#include "check.h"

namespace cg = cooperative_groups;

__global__ void neighbours(int* out) {
    __shared__ int mine;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x == 0) mine = 100 + blockIdx.x;
    cluster.sync();
    int* theirs = cluster.map_shared_rank(&mine, (cluster.block_rank() + 1) % cluster.num_blocks());
    if (threadIdx.x == 0) out[blockIdx.x] = *theirs;
    cluster.sync();
}

__global__ void add(int* x, int by) { atomicAdd(x, by); }

namespace {
__global__ void hidden(int* x) { *x += 1; }
}  // namespace

static const char PTX[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .const .align 4 .u32 three;
.visible .entry put(.param .u64 to)
{
    .reg .b32 %r1;
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [to];
    ld.const.u32 %r1, [three];
    st.global.u32 [%rd1], %r1;
    ret;
}
)";

int main() {
    for (int round = 0; round < 2; ++round) {
        const int n = 12;
        int *x, back[n];
        CHECK(cudaMalloc(&x, n * sizeof(int)));
        cudaLaunchAttribute attribute;
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = 4, attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        cudaLaunchConfig_t config{};
        config.gridDim = n, config.blockDim = 32, config.attrs = &attribute, config.numAttrs = 1;
        int clusters = 0, size = 0;
        CHECK(cudaOccupancyMaxActiveClusters(&clusters, neighbours, &config));
        CHECK(cudaOccupancyMaxPotentialClusterSize(&size, neighbours, &config));
        EXPECT(clusters == 32 * 30 && size == 8);  // of one-warp blocks, 32 an SM
        CHECK(cudaLaunchKernelEx(&config, neighbours, x));
        CHECK(cudaMemcpy(back, x, sizeof back, cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i) EXPECT(back[i] == 100 + i / 4 * 4 + (i + 1) % 4);

        int by = 2, grid = 0, block = 0;
        CHECK(cudaMemset(x, 0, sizeof(int)));
        void* arguments[] = {&x, &by};
        CHECK(cudaLaunchCooperativeKernel(add, dim3(4), dim3(32), arguments, 0, cudaStreamPerThread));
        CHECK(cudaLaunchKernel(add, dim3(1), dim3(1), arguments, 0, nullptr));
        hidden<<<1, 1>>>(x);
        CHECK(cudaMemcpy(back, x, sizeof(int), cudaMemcpyDeviceToHost));
        EXPECT(back[0] == 2 * 4 * 32 + 2 + 1);
        CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, add));
        EXPECT(grid * block == 132 * 2048);

        cudaLibrary_t library;
        cudaKernel_t put;
        CHECK(cudaLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0));
        CHECK(cudaLibraryGetKernel(&put, library, "put"));
        void* three;
        size_t bytes;
        CHECK(cudaLibraryGetGlobal(&three, &bytes, library, "three"));
        EXPECT(bytes == 4);
        int value = 33 + round;
        CHECK(cudaMemcpy(three, &value, 4, cudaMemcpyHostToDevice));
        CHECK(cudaLaunchKernel((const void*)put, dim3(1), dim3(1), arguments, 0, nullptr));
        CHECK(cudaMemcpy(back, x, sizeof(int), cudaMemcpyDeviceToHost));
        EXPECT(back[0] == value);
        CHECK(cudaLibraryUnload(library));
        CHECK(cudaDeviceReset());
    }
    printf("PASS\n");
}
