// What goes wrong, by name, one after the other.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}
__global__ void forever(volatile int* x) {
    int i = 0;
    while (x[1] == 0) x[0] = ++i;
}
__global__ void counts(int* x, int n) {
    for (long i = 0; i < 1000000000l * n; ++i) x[threadIdx.x] += i % 3;
}
__global__ void asserts(int n) { assert(n == 4); }
__global__ void prints(int n) { printf("thread %d of %d\n", int(threadIdx.x), n); }
__global__ void reads(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void adds_once(int* x) {
    __shared__ int held[64];
    x[threadIdx.x] += 1;
    held[threadIdx.x] = threadIdx.x;
    x[threadIdx.x] += held[63 - threadIdx.x] - (63 - threadIdx.x);  // a race that does no harm
}
__global__ void walks(int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] += 1;
    y[x[i] / 100 + i] = 1;
}
__global__ void misses_barrier(int* x) {
    if (threadIdx.x < 32) return;
    x[threadIdx.x] = 1;
    __syncthreads();
}

int main(int argc, char** argv) {
  for (int next = 1; next < argc; ++next) {
    std::string what = argv[next];
    int *x, *y;
    CHECK(cudaMalloc(&x, 1024));
    CHECK(cudaMemset(x, 0, 1024));
    CHECK(cudaMalloc(&y, 1024));
    if (what == "launches") {
        for (int i = atoi(argv[++next]); i; --i) fill<<<1, 32>>>(x, 32);
    } else if (what == "spin") {
        forever<<<atoi(argv[++next]), 1>>>(x);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    } else if (what == "count") {
        counts<<<1, 32>>>(x, 1);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    } else if (what == "assert") {
        asserts<<<1, 1>>>(3);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    } else if (what == "printf") {
        printf("before\n");
        prints<<<1, 3>>>(3);
        CHECK(cudaDeviceSynchronize());
        printf("after\n");
    } else if (what == "huge") {
        char* p;
        size_t left, all;
        CHECK(cudaMemGetInfo(&left, &all));
        printf("%s\n", cudaGetErrorName(cudaMalloc(&p, 1000ull << 30)));
        printf("%s\n", cudaGetErrorName(cudaGetLastError()));
        cudaError_t ten = cudaMalloc(&p, 10ull << 30);
        printf("%s\n", ten == cudaSuccess || ten == cudaErrorMemoryAllocation ? "ten" : "?");
        if (ten == cudaSuccess) {
            fill<<<1, 32>>>((int*)(p + (10ull << 30) - 128), 32);
            int last;
            CHECK(cudaMemcpy(&last, p + (10ull << 30) - 4, 4, cudaMemcpyDeviceToHost));
            EXPECT(last == 31);
        }
    } else if (what == "host") {
        x[3] = 7;
    } else if (what == "host-freed") {
        CHECK(cudaFree(x));
        printf("%d\n", x[3]);
    } else if (what == "segv") {
        *(volatile int*)16 = 1;
    } else if (what == "free-twice") {
        CHECK(cudaFree(x));
        printf("%s\n", cudaGetErrorName(cudaFree(x)));
        printf("%s\n", cudaGetErrorName(cudaFree(y + 1)));
    } else if (what == "beyond") {
        char there[2000];
        printf("%s\n", cudaGetErrorName(cudaMemcpy(there, x, 2000, cudaMemcpyDeviceToHost)));
        printf("%s\n", cudaGetErrorName(cudaMemcpy(there, x, 8, cudaMemcpyHostToDevice)));
    } else if (what == "configuration") {
        fill<<<1, 2048>>>(x, 1);
        printf("%s\n", cudaGetErrorName(cudaGetLastError()));
        fill<<<1, 32, 100000>>>(x, 1);
        printf("%s\n", cudaGetErrorName(cudaGetLastError()));
        int n = 0;
        void* arguments[] = {&x, &n};
        printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel(fill, dim3(5000), dim3(32), arguments, 0, nullptr)));
        printf("%s\n", cudaGetErrorName(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 32768001)));
        printf("%s\n", cudaGetErrorName(cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 4)));
    } else if (what == "unwritten") {
        reads<<<1, 32>>>(y, x);
        CHECK(cudaDeviceSynchronize());
    } else if (what == "written-by-kernel") {
        fill<<<1, 32>>>(y, 32);
        reads<<<1, 32>>>(y, x);
        CHECK(cudaDeviceSynchronize());
    } else if (what == "freed") {
        CHECK(cudaFree(y));
        reads<<<1, 32>>>(y, x);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    } else if (what == "barrier") {
        misses_barrier<<<1, 64>>>(x);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    } else if (what == "race") {
        int back[64], sum = 0;
        adds_once<<<1, 64>>>(x);
        CHECK(cudaMemcpy(back, x, sizeof back, cudaMemcpyDeviceToHost));
        for (int value : back) sum += value;
        printf("%d\n", sum);
    } else if (what == "walk") {
        int back[256], sum = 0;
        walks<<<8, 32>>>(x, y);
        CHECK(cudaMemcpy(back, x, sizeof back, cudaMemcpyDeviceToHost));
        for (int value : back) sum += value;
        printf("%d\n", sum);
    } else if (what == "sleep") {
        printf("ready\n");
        fflush(stdout);
        sleep(100);
    } else if (what == "kill") {
        fill<<<1, 32>>>(x, 32);
        raise(SIGKILL);
    } else if (what == "fork") {
        pid_t child = fork();
        if (child == 0) {
            printf("child: %s\n", cudaGetErrorName(cudaMemset(x, 0, 4)));
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, nullptr, 0);
        fill<<<1, 32>>>(x, 32);
        CHECK(cudaDeviceSynchronize());
    } else if (what == "threads") {
        std::vector<std::thread> threads;
        std::atomic<int> right{0};
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&right] {
                int *own, back[64];
                cudaStream_t stream;
                CHECK(cudaStreamCreate(&stream));
                CHECK(cudaMalloc(&own, sizeof back));
                for (int i = 1; i <= 5; ++i) {
                    fill<<<2, 32, 0, stream>>>(own, 64);
                    CHECK(cudaMemcpyAsync(back, own, sizeof back, cudaMemcpyDeviceToHost, stream));
                    CHECK(cudaStreamSynchronize(stream));
                    right += back[63] == 63;
                    CHECK(cudaMemset(own, 0, sizeof back));
                }
                EXPECT(cudaFree(own + 1) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
                CHECK(cudaFree(own));
            });
        for (auto& thread : threads) thread.join();
        EXPECT(cudaGetLastError() == cudaSuccess);  // errors are of a thread
        printf("%d\n", int(right));
    } else if (what == "exit") {
        return atoi(argv[++next]);
    }
  }
  printf("end\n");
}
