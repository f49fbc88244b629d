// The clock of the device: stamps of all multiprocessors, and events, around work; some of it in a profiler's range.
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include "check.h"
typedef unsigned long long u64;

__global__ void stamp(u64* out) {
    unsigned sm;
    u64 cycles = clock64(), now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    out[2 * sm] = cycles, out[2 * sm + 1] = now;
}
namespace some {
template <int N>
__global__ void work(float* x, int rounds) {
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) x[threadIdx.x] += N;
}
}  // namespace some

int main() {
    int sms = 0;
    cudaError_t error = cudaGetDeviceCount(&sms);
    if (error) printf("%d: %s\n", sms, cudaGetErrorString(error)), exit(0);
    CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    u64* at;
    float *x, ms[2];
    cudaEvent_t events[3];
    CHECK(cudaMallocManaged(&at, 2 * sms * 16));
    CHECK(cudaMalloc(&x, 128));
    CHECK(cudaMemset(x, 0, 128));
    for (auto& event : events) CHECK(cudaEventCreate(&event));
    stamp<<<sms, 1>>>(at);
    CHECK(cudaEventRecord(events[0]));
    some::work<1><<<1, 32>>>(x, 10);
    CHECK(cudaEventRecord(events[1]));
    CHECK(cudaProfilerStart());
    some::work<2><<<1, 32>>>(x, 1000);
    CHECK(cudaProfilerStop());
    CHECK(cudaEventRecord(events[2]));
    stamp<<<sms, 1>>>(at + 2 * sms);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 2; ++i) CHECK(cudaEventElapsedTime(&ms[i], events[i], events[i + 1]));
    double between = 0, least = 1e9, most = 0;
    for (int i = 0; i < sms; ++i) {
        between = double(at[2 * (sms + i) + 1] - at[2 * i + 1]);
        double mhz = 1e3 * double(at[2 * (sms + i)] - at[2 * i]) / between;
        least = mhz < least ? mhz : least, most = mhz > most ? mhz : most;
    }
    printf("%d SMs at %.1f to %.1f MHz; %g and %g of %g ms\n", sms, least, most, ms[0], ms[1], between * 1e-6);
}
