// A reduction in two kernels, in streams that wait for each other's events; pinned memory, callbacks, dynamic shared memory.
#include <vector>

#include "check.h"

__global__ void partial(const int* in, int n, int* out) {
    extern __shared__ int sums[];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}

__global__ void final_sum(const int* partials, int n, int* total) {
    int sum = threadIdx.x < n ? partials[threadIdx.x] : 0;
    for (int lane = 16; lane; lane /= 2) sum += __shfl_down_sync(~0u, sum, lane);
    if (threadIdx.x == 0) *total += sum;
}

static int called = 0;
static void CUDART_CB on_stream(void* what) { called += *static_cast<int*>(what); }
static void CUDART_CB on_stream_old(cudaStream_t, cudaError_t status, void* what) { called += status == cudaSuccess ? *static_cast<int*>(what) : 1000; }

int main() {
    const int n = 5000, blocks = 16, threads = 128;
    int* host;
    CHECK(cudaMallocHost(&host, n * sizeof(int)));
    long expected = 0;
    for (int i = 0; i < n; ++i) expected += host[i] = i % 17;
    cudaStream_t load, work;
    CHECK(cudaStreamCreate(&load));
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&work, cudaStreamNonBlocking, greatest));
    cudaEvent_t loaded;
    CHECK(cudaEventCreateWithFlags(&loaded, cudaEventDisableTiming));
    int *in, *partials, *total;
    CHECK(cudaMallocAsync(&in, n * sizeof(int), load));
    CHECK(cudaMalloc(&partials, blocks * sizeof(int)));
    CHECK(cudaMalloc(&total, sizeof(int)));
    CHECK(cudaMemcpyAsync(in, host, n * sizeof(int), cudaMemcpyHostToDevice, load));
    CHECK(cudaEventRecord(loaded, load));
    CHECK(cudaStreamWaitEvent(work, loaded, 0));
    CHECK(cudaMemsetAsync(total, 0, sizeof(int), work));
    CHECK(cudaFuncSetAttribute(partial, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
    int each = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, partial, threads, threads * sizeof(int)));
    EXPECT(each == 16);  // 2048 threads of a multiprocessor
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, partial));
    EXPECT(attributes.numRegs > 4 && attributes.maxDynamicSharedSizeBytes == 64 * 1024 && attributes.sharedSizeBytes == 0);
    partial<<<blocks, threads, 60 * 1024, work>>>(in, n, partials);
    final_sum<<<1, 32, 0, work>>>(partials, blocks, total);
    int one = 1, ten = 10;
    CHECK(cudaLaunchHostFunc(work, on_stream, &one));
    CHECK(cudaStreamAddCallback(work, on_stream_old, &ten, 0));
    int result = -1;
    CHECK(cudaMemcpyAsync(&result, total, sizeof(int), cudaMemcpyDeviceToHost, work));
    CHECK(cudaStreamSynchronize(work));
    CHECK(cudaStreamQuery(load));
    EXPECT(result == expected && called == 11);
    CHECK(cudaFreeAsync(in, load));
    CHECK(cudaFree(partials));
    CHECK(cudaFreeHost(host));
    CHECK(cudaStreamDestroy(load));
    size_t left, all;
    CHECK(cudaMemGetInfo(&left, &all));
    EXPECT(all - left == sizeof(int));
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    printf("%s, %d multiprocessors: %d PASS\n", properties.name, properties.multiProcessorCount, result);
}
