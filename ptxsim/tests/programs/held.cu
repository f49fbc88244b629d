// A kernel that holds a stream until the host writes a flag, and what is queued behind it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>
#include "check.h"

__global__ void hold(const volatile int* flag) { while (*flag == 0) {} }
__global__ void add(int* to, const int* from, int more) { *to = *from + more; }

struct Held {
    int *flag, *device, *result;  // flag and result: pinned
    cudaStream_t held, other;
    cudaEvent_t start, end;
    Held() {
        CHECK(cudaMallocHost(&flag, 4)); CHECK(cudaMallocHost(&result, 4)); CHECK(cudaMalloc(&device, 8));
        CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking)); CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&start)); CHECK(cudaEventCreate(&end));
        *flag = *result = 0;
        CHECK(cudaMemset(device, 0, 8)); CHECK(cudaDeviceSynchronize());
    }
    void fill() {  // 5 + 1, of a source in pageable memory that is gone before the copy
        int five = 5;
        hold<<<1, 1, 0, held>>>(flag);
        CHECK(cudaMemcpyAsync(device, &five, 4, cudaMemcpyHostToDevice, held));
        five = 0;
        CHECK(cudaEventRecord(start, held));
        add<<<1, 1, 0, held>>>(device, device, 1);
        CHECK(cudaEventRecord(end, held));
        CHECK(cudaMemcpyAsync(result, device, 4, cudaMemcpyDeviceToHost, held));
    }
};

int main(int argc, char** argv) {
    Held h;
    const char* way = argv[1];
    float ms = 0;
    h.fill();
    if (!strcmp(way, "released")) {
        printf("%d ", *h.result);
        *h.flag = 1;
        CHECK(cudaStreamSynchronize(h.held));
        CHECK(cudaEventElapsedTime(&ms, h.start, h.end));
        printf("%d %s\n", *h.result, ms > 0 ? "later" : "at once");
    } else if (!strcmp(way, "never")) {
        cudaError_t e = cudaStreamSynchronize(h.held);
        printf("%s\n", cudaGetErrorString(e));
    } else if (!strcmp(way, "left")) {
        printf("left\n");
    } else if (!strcmp(way, "query")) {  // not ready once and, as the flag is not set, again
        cudaError_t first = cudaEventQuery(h.end), second = cudaEventQuery(h.end);
        *h.flag = 1;
        int asked = 0;
        while (cudaStreamQuery(h.held) == cudaErrorNotReady) ++asked;
        printf("%d %d %d %d %s\n", first, second, asked, *h.result, cudaGetErrorString(cudaEventQuery(h.end)));
    } else if (!strcmp(way, "others")) {  // another stream goes on, until it waits for the held one
        add<<<1, 1, 0, h.other>>>(h.device + 1, h.device + 1, 7);
        int seven = 0;
        CHECK(cudaMemcpyAsync(&seven, h.device + 1, 4, cudaMemcpyDeviceToHost, h.other));
        CHECK(cudaStreamSynchronize(h.other));
        CHECK(cudaStreamWaitEvent(h.other, h.end, 0));
        add<<<1, 1, 0, h.other>>>(h.device + 1, h.device, 10);
        *h.flag = 1;
        int later = 0;
        CHECK(cudaMemcpyAsync(&later, h.device + 1, 4, cudaMemcpyDeviceToHost, h.other));
        CHECK(cudaStreamSynchronize(h.other));
        printf("%d %d\n", seven, later);
    } else if (!strcmp(way, "event")) {  // what comes after the event that the host waits for is not done yet
        *h.flag = 1;
        CHECK(cudaEventSynchronize(h.start));
        cudaError_t end = cudaEventQuery(h.end);
        printf("%d %d\n", end, *h.result);
        CHECK(cudaDeviceSynchronize());
    }
    return 0;
}
