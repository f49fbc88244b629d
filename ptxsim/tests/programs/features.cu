// __constant__, __device__ and __managed__ variables, managed and mapped memory, texture objects, structs of pointers, printf.
#include <cstring>
#include <vector>

#include "check.h"

__constant__ float weights[4];
__constant__ int set_here = 42;
__device__ int counter;
__device__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__managed__ int managed_total = 5;

struct View {
    const float* in;
    float* out;
    int n;
    short shift;
};

__global__ void smooth(View v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= v.n) return;
    float sum = 0;
    for (int j = 0; j < 4; ++j) sum += weights[j] * v.in[(i + j + v.shift) % v.n];
    v.out[i] = sum + table[i % 8] + set_here;
    atomicAdd(&counter, 1);
}

__global__ void fetch(cudaTextureObject_t floats, cudaTextureObject_t pairs, float* out, int n) {
    int i = threadIdx.x;
    if (i < n) {
        uchar2 p = tex1Dfetch<uchar2>(pairs, i);
        out[i] = tex1Dfetch<float>(floats, i) + p.x + p.y;
    }
    if (i == 0) printf("from the device: %d and %s, %.2f\n", n, "text", 1.5);
}

__global__ void on_managed(int* data, int n) {
    int i = threadIdx.x;
    if (i < n) atomicAdd(&managed_total, data[i]);
}

__global__ void add_first(int* data) { data[1] += data[0]; }
__global__ void __launch_bounds__(64) nothing() {}

int main() {
    const int n = 100;
    std::vector<float> in(n), out(n, -1);
    for (int i = 0; i < n; ++i) in[i] = i;
    float w[4] = {0.5f, 0.25f, 0.125f, 0.125f}, *din, *dout;
    CHECK(cudaMemcpyToSymbol(weights, w, sizeof w));
    CHECK(cudaMalloc(&din, n * 4));
    CHECK(cudaMalloc(&dout, n * 4));
    CHECK(cudaMemcpy(din, in.data(), n * 4, cudaMemcpyDefault));
    int zero = 0, count = -1;
    CHECK(cudaMemcpyToSymbol(counter, &zero, sizeof zero));
    smooth<<<2, 64>>>(View{din, dout, n, 1});
    CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    EXPECT(count == n);
    CHECK(cudaMemcpy(out.data(), dout, n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) {
        float sum = 0;
        for (int j = 0; j < 4; ++j) sum += w[j] * in[(i + j + 1) % n];
        EXPECT(out[i] == sum + 1 + i % 8 + 42);
    }
    void* at;
    size_t size;
    CHECK(cudaGetSymbolAddress(&at, table));
    CHECK(cudaGetSymbolSize(&size, table));
    EXPECT(size == 32);
    float third;
    CHECK(cudaMemcpy(&third, static_cast<float*>(at) + 2, 4, cudaMemcpyDeviceToHost));
    EXPECT(third == 3);

    std::vector<uchar2> pairs(n);
    for (int i = 0; i < n; ++i) pairs[i] = make_uchar2(i, 2 * i % 256);
    uchar2* dpairs;
    CHECK(cudaMalloc(&dpairs, n * sizeof(uchar2)));
    CHECK(cudaMemcpy(dpairs, pairs.data(), n * sizeof(uchar2), cudaMemcpyHostToDevice));
    cudaResourceDesc r{};
    cudaTextureDesc t{};
    cudaTextureObject_t floats, bytes;
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = din, r.res.linear.desc = cudaCreateChannelDesc<float>(), r.res.linear.sizeInBytes = n * 4;
    CHECK(cudaCreateTextureObject(&floats, &r, &t, nullptr));
    r.res.linear.devPtr = dpairs, r.res.linear.desc = cudaCreateChannelDesc<uchar2>(), r.res.linear.sizeInBytes = n * 2;
    CHECK(cudaCreateTextureObject(&bytes, &r, &t, nullptr));
    fetch<<<1, 128>>>(floats, bytes, dout, n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(out.data(), dout, n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) EXPECT(out[i] == in[i] + pairs[i].x + pairs[i].y);
    CHECK(cudaDestroyTextureObject(floats));

    int* managed;
    CHECK(cudaMallocManaged(&managed, n * 4));
    for (int i = 0; i < n; ++i) managed[i] = i;
    managed_total += 2;
    on_managed<<<1, 128>>>(managed, n);
    CHECK(cudaDeviceSynchronize());
    EXPECT(managed_total == 7 + n * (n - 1) / 2);

    int *mapped, *seen;
    CHECK(cudaHostAlloc(&mapped, n * 4, cudaHostAllocMapped));
    for (int i = 0; i < n; ++i) mapped[i] = 1;
    CHECK(cudaHostGetDevicePointer(&seen, mapped, 0));
    on_managed<<<1, 128>>>(seen, n);
    CHECK(cudaDeviceSynchronize());
    EXPECT(managed_total == 7 + n + n * (n - 1) / 2);
    // memory of the program's own, not at a page's start; it is the program's again afterwards
    std::vector<int> own(n + 5000, 1);
    CHECK(cudaHostRegister(own.data() + 7, n * 4, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&seen, own.data() + 9, 0));
    add_first<<<1, 1>>>(seen);
    CHECK(cudaDeviceSynchronize());
    own[9] = 5;
    add_first<<<1, 1>>>(seen);
    CHECK(cudaDeviceSynchronize());
    EXPECT(own[10] == 7);
    CHECK(cudaHostUnregister(own.data() + 7));
    EXPECT(own[10] == 7 && own[9] == 5 && own[n + 4999] == 1);
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, managed));
    EXPECT(a.type == cudaMemoryTypeManaged);
    CHECK(cudaPointerGetAttributes(&a, din));
    EXPECT(a.type == cudaMemoryTypeDevice && a.hostPointer == nullptr);
    CHECK(cudaPointerGetAttributes(&a, &count));
    EXPECT(a.type == cudaMemoryTypeUnregistered);
    cudaDeviceProp device;  // the default: an H100
    CHECK(cudaGetDeviceProperties(&device, 0));
    EXPECT(device.persistingL2CacheMaxSize == 32768000 && device.accessPolicyMaxWindowSize == 134217728);
    CHECK(cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 32768000));
    CHECK(cudaDeviceGetLimit(&size, cudaLimitPersistingL2CacheSize));
    EXPECT(size == 32768000);
    nothing<<<1, 64>>>();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeHost(mapped));
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc(&din, 16));
    int again = 0;
    CHECK(cudaMemcpyFromSymbol(&again, set_here, 4));
    EXPECT(again == 42);
    printf("PASS\n");
}
