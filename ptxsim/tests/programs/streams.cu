// Work of streams and host code that touch the same memory: ./streams WAY ... does each way
#include <cuda.h>
#include <stdint.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

__global__ void fill(int* y, int n, int from) { for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = from + i; }
__global__ void twice(int* z, const int* y, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) z[i] = 2 * y[i]; }
__global__ void fill_early(int* y, int n, int from) {
    cudaTriggerProgrammaticLaunchCompletion();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = from + i;
}
__global__ void twice_after(int* z, const int* y, int n, bool waits) {
    if (waits && threadIdx.x == 0) cudaGridDependencySynchronize();
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) z[i] = 2 * y[i];
    cudaGridDependencySynchronize();
}
static void launch_dependent(cudaStream_t s, int* z, const int* y, int n, bool waits) {
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization, early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {1, 128, 0, s, &early, 1};
    cudaLaunchKernelEx(&config, twice_after, z, y, n, waits);
}
// Copies 32 integers by a tensor map in global memory, and then gives the map another address where `to` is one. Where
// `from` is a map, it is first stored there.
__global__ void by_map(int* out, CUtensorMap* map, bool acquires, const int* to, const CUtensorMap* from = nullptr) {
    __shared__ alignas(128) int tile[32];
    __shared__ uint64_t bar;
    auto shared = [](void* p) { return uint32_t(__cvta_generic_to_shared(p)); };
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(&bar)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int i = 0; from && i < 16; ++i) reinterpret_cast<long long*>(map)[i] = reinterpret_cast<const long long*>(from)[i];
        if (from && acquires) asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
        if (acquires) asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" ::"r"(shared(&bar)) : "memory");
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" ::"r"(
                         shared(tile)), "l"(map), "r"(shared(&bar)), "r"(0) : "memory");
        asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }" ::"r"(shared(&bar)) : "memory");
    }
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
    if (to && threadIdx.x == 0) {
        asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(to) : "memory");
        asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    }
}
static void encode(CUtensorMap* to, int* x) {
    CUtensorMap map;
    cuuint64_t dim = 32;
    cuuint32_t box = 32, step = 1;
    cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 1, x, &dim, nullptr, &box, &step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                           CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    cudaMemcpy(to, &map, sizeof map, cudaMemcpyHostToDevice);
}
static void host_work(void* data) { static_cast<int*>(data)[8191] += 1; }

int main(int argc, char** argv) {
    const int n = 8192;
    int *pinned, *managed, *y, *z, *plain = new int[n];
    cudaStream_t s, t, waits;
    cudaEvent_t event;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaStreamCreate(&waits);
    cudaEventCreate(&event);
    cudaMallocHost(&pinned, n * 4), cudaMallocManaged(&managed, n * 4), cudaMalloc(&y, n * 4), cudaMalloc(&z, n * 4);
    for (int i = 1; i < argc; ++i) {
        auto is = [&](const char* way) { return strcmp(argv[i], way) == 0; };
        int found = -1;
        // right
        if (is("synchronised")) {
            fill<<<1, 128, 0, s>>>(y, n, 0);
            cudaMemcpyAsync(pinned, y, n * 4, cudaMemcpyDeviceToHost, s);
            cudaStreamSynchronize(s);
            found = pinned[n - 1];
        }
        if (is("managed")) fill<<<1, 128>>>(managed, n, 0), cudaDeviceSynchronize(), found = managed[n - 1];
        if (is("event")) {
            fill<<<1, 128, 0, s>>>(y, n, 0);
            cudaEventRecord(event, s);
            cudaStreamWaitEvent(t, event, 0);
            twice<<<1, 128, 0, t>>>(z, y, n);
            cudaMemcpyAsync(plain, z, n * 4, cudaMemcpyDeviceToHost, t);  // to pageable memory: done when it returns
            found = plain[n - 1];
        }
        if (is("event-host")) {
            fill<<<1, 128, 0, s>>>(managed, n, 0);
            cudaEventRecord(event, s);
            cudaEventSynchronize(event);
            found = managed[n - 1];
        }
        if (is("halves")) {
            fill<<<1, 128, 0, s>>>(y, n / 2, 0);
            fill<<<1, 128, 0, t>>>(y + n / 2, n / 2, n / 2);
            cudaDeviceSynchronize();
            cudaMemcpy(plain, y, n * 4, cudaMemcpyDeviceToHost);
            found = plain[n - 1];
        }
        if (is("default")) {
            fill<<<1, 128, 0, waits>>>(y, n, 0);
            twice<<<1, 128>>>(z, y, n);
            fill<<<1, 128, 0, waits>>>(y, n, 1);
            cudaMemcpy(plain, z, n * 4, cudaMemcpyDeviceToHost);
            found = plain[n - 1];
        }
        if (is("callback")) {
            fill<<<1, 128, 0, s>>>(managed, n, 0);
            cudaLaunchHostFunc(s, host_work, managed);
            cudaStreamSynchronize(s);
            found = managed[n - 1];
        }
        if (is("readers")) {
            fill<<<1, 128>>>(y, n, 0), cudaDeviceSynchronize();
            twice<<<1, 128, 0, s>>>(z, y, n);
            cudaMemcpyAsync(pinned, y, n * 4, cudaMemcpyDeviceToHost, t);
            cudaStreamSynchronize(t), cudaStreamSynchronize(s);
            found = pinned[n - 1];
        }
        if (is("allocated")) {
            for (int* x : {y, z}) {
                cudaMallocAsync(&x, n * 4, s);
                cudaEventRecord(event, s), cudaStreamWaitEvent(t, event, 0);
                fill<<<1, 128, 0, t>>>(x, n, 0);
                cudaEventRecord(event, t), cudaStreamWaitEvent(s, event, 0);
                cudaFreeAsync(x, s);
                std::swap(s, t);  // the next may have the same address
            }
            found = cudaDeviceSynchronize();
        }
        if (is("dependent")) {
            fill_early<<<1, 128, 0, s>>>(y, n, 0);
            launch_dependent(s, z, y, n, true);
            cudaMemcpyAsync(plain, z, n * 4, cudaMemcpyDeviceToHost, s);
            found = plain[n - 1];
        }
        if (strncmp(argv[i], "map-", 4) == 0) {  // the last two wrong
            CUtensorMap* map;
            cudaMalloc(&map, 2 * sizeof *map), encode(map, y);
            fill<<<1, 128>>>(y, n, 0), fill<<<1, 128>>>(z, n, 5);
            if (strncmp(argv[i], "map-stored", 10) == 0) {
                encode(map + 1, z);
                by_map<<<1, 32>>>(y + 64, map, is("map-stored"), nullptr, map + 1);
            } else {
                by_map<<<1, 32>>>(y + 64, map, !is("map-used-first"), is("map-changed-by-kernel") ? z : nullptr);
                if (!is("map-changed-by-kernel")) encode(map, z);
                by_map<<<1, 32>>>(y + 64, map, is("map-acquired") || is("map-used-first"), nullptr);
            }
            cudaMemcpy(&found, y + 64, 4, cudaMemcpyDeviceToHost);
            cudaFree(map);
        }
        // wrong
        if (is("dependent-too-early")) {
            fill_early<<<1, 128, 0, s>>>(y, n, 0);
            launch_dependent(s, z, y, n, false);
        }
        if (is("used-before-allocated") || is("freed-too-early") || is("freed-by-host")) {
            int* x;
            cudaMallocAsync(&x, n * 4, s);
            cudaEventRecord(event, s);
            if (!is("used-before-allocated")) cudaStreamWaitEvent(t, event, 0);
            fill<<<1, 128, 0, t>>>(x, n, 0);
            if (is("used-before-allocated")) cudaStreamSynchronize(t);
            if (is("freed-by-host")) cudaFree(x);
            else cudaFreeAsync(x, s);
        }
        if (is("read-too-early")) {
            fill<<<1, 128, 0, s>>>(y, n, 0);
            cudaMemcpyAsync(pinned, y, n * 4, cudaMemcpyDeviceToHost, s);
            found = pinned[n - 1];
        }
        if (is("managed-too-early")) fill<<<1, 128>>>(managed, n, 0), found = managed[n - 1];
        if (is("other-stream")) {
            fill<<<1, 128, 0, s>>>(y, n, 0);
            twice<<<1, 128, 0, t>>>(z, y, n);
            cudaStreamSynchronize(t);
        }
        if (is("event-too-early")) {
            cudaEventRecord(event, s);
            fill<<<1, 128, 0, s>>>(y, n, 0);
            cudaStreamWaitEvent(t, event, 0);
            twice<<<1, 128, 0, t>>>(z, y, n);
        }
        if (is("wrong-stream")) {
            fill<<<1, 128, 0, s>>>(managed, n, 0);
            cudaStreamSynchronize(t);
            found = managed[n - 1];
        }
        if (is("source-reused")) {
            cudaMemcpyAsync(y, pinned, n * 4, cudaMemcpyHostToDevice, s);
            pinned[n - 1] = 1;
        }
        if (is("default-not-waited-for")) {
            fill<<<1, 128>>>(y, n, 0);
            twice<<<1, 128, 0, s>>>(z, y, n);
        }
        // clocks
        if (is("timed") || is("timed-too-early")) {
            const auto start = std::chrono::steady_clock::now();
            fill<<<1, 128>>>(y, n, 0);
            if (is("timed")) cudaDeviceSynchronize();
            const auto end = std::chrono::steady_clock::now();
            found = end < start;
        }
        printf("%s %d\n", argv[i], found), fflush(stdout);
        cudaDeviceSynchronize();
    }
}
