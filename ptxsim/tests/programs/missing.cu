// Uses calls that are not emulated, and one that is refused, and takes no notice of the errors.
#include "check.h"

__global__ void increment(int* x) { *x += 1; }

int main() {
    int* x;
    CHECK(cudaMalloc(&x, sizeof(int)));
    CHECK(cudaMemset(x, 0, sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    cudaIpcMemHandle_t handle; cudaError_t code = cudaIpcGetMemHandle(&handle, x);
    printf("%s\n", cudaGetErrorName(code));
    increment<<<1, 1, 0, stream>>>(x);
    cudaEvent_t event;
    printf("%s\n", cudaGetErrorString(cudaIpcOpenEventHandle(&event, cudaIpcEventHandle_t{})));
    cudaMipmappedArray_t array;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<float>();
    printf("%d\n", cudaMallocMipmappedArray(&array, &d, make_cudaExtent(4, 4, 0), 1) == cudaErrorNotSupported);
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension, cluster.val.clusterDim = {1, 4, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(4, 6), config.blockDim = 32, config.attrs = &cluster, config.numAttrs = 1;
    int clusters;
    printf("%s\n", cudaGetErrorName(cudaOccupancyMaxActiveClusters(&clusters, increment, &config)));
}
