// CUDA arrays with textures and surfaces of them. Prints what was fetched, a line for each fetch.
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

__global__ void rotate(float* out, cudaTextureObject_t t, int width, int height, float angle) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float u = (x + 0.5f) / width - 0.5f, v = (y + 0.5f) / height - 0.5f;
    float tu = u * cosf(angle) - v * sinf(angle) + 0.5f, tv = v * cosf(angle) + u * sinf(angle) + 0.5f;
    out[y * width + x] = tex2D<float>(t, tu, tv);
}
template <class T>
__global__ void fetch_2d(T* out, cudaTextureObject_t t, const float2* at) { out[threadIdx.x] = tex2D<T>(t, at[threadIdx.x].x, at[threadIdx.x].y); }
__global__ void fetch_1d(float* out, cudaTextureObject_t t, const float2* at) { out[threadIdx.x] = tex1D<float>(t, at[threadIdx.x].x); }
__global__ void fetch_linear(float* out, cudaTextureObject_t t) { out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x); }
__global__ void fetch_3d(float* out, cudaTextureObject_t t) { out[threadIdx.x] = tex3D<float>(t, threadIdx.x % 2 + 0.5f, threadIdx.x / 2 % 3 + 0.5f, threadIdx.x / 6 + 0.5f); }
__global__ void add_one(cudaSurfaceObject_t to, cudaSurfaceObject_t from) {
    float v;
    surf2Dread(&v, from, (threadIdx.x + 1) * 4, threadIdx.y, cudaBoundaryModeZero);
    surf2Dwrite(v + 1, to, threadIdx.x * 4, threadIdx.y);
}

template <class T>
cudaArray_t array_of(const std::vector<T>& data, size_t width, size_t height, unsigned flags = 0) {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
    CHECK(cudaMallocArray(&array, &format, width, height, flags));
    size_t row = width * sizeof(T);
    if (!data.empty()) CHECK(cudaMemcpy2DToArray(array, 0, 0, data.data(), height > 1 ? row : 0, row, height ? height : 1, cudaMemcpyHostToDevice));
    return array;
}
cudaResourceDesc resource(cudaArray_t array) {
    cudaResourceDesc r{};
    r.resType = cudaResourceTypeArray, r.res.array.array = array;
    return r;
}
cudaTextureObject_t texture(cudaArray_t array, cudaTextureAddressMode x, cudaTextureAddressMode y, bool linear, bool normalized, bool as_floats = false) {
    cudaResourceDesc r = resource(array);
    cudaTextureDesc d{};
    d.addressMode[0] = x, d.addressMode[1] = y, d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    d.normalizedCoords = normalized, d.readMode = as_floats ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    cudaTextureObject_t t = 0;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
}
cudaSurfaceObject_t surface(cudaArray_t array) {
    cudaResourceDesc r = resource(array);
    cudaSurfaceObject_t s = 0;
    CHECK(cudaCreateSurfaceObject(&s, &r));
    return s;
}

constexpr int W = 16, H = 8, N = 64;
std::vector<float> numbers(int n) {
    std::vector<float> v(n);
    for (int i = 0; i < n; ++i) v[i] = float(i * i % 37) - 11.5f;
    return v;
}
void show(const char* name, const float* values, int n) {
    printf("%s", name);
    for (int i = 0; i < n; ++i) printf(" %.9g", values[i]);
    printf("\n");
}
template <class T, class Launch>
void fetched(const char* name, int n, Launch launch) {
    T* out;
    CHECK(cudaMalloc(&out, n * sizeof(T)));
    launch(out);
    std::vector<T> back(n);
    CHECK(cudaMemcpy(back.data(), out, n * sizeof(T), cudaMemcpyDeviceToHost));
    show(name, reinterpret_cast<float*>(back.data()), int(n * sizeof(T) / 4));
    CHECK(cudaFree(out));
}

void right() {
    std::vector<float2> places;  // from well before the array to well behind it
    for (int i = 0; i < N; ++i) places.push_back({(i - 16) * 0.71f, (40 - i) * 0.33f});
    float2* at;
    CHECK(cudaMalloc(&at, N * sizeof(float2)));
    CHECK(cudaMemcpy(at, places.data(), N * sizeof(float2), cudaMemcpyHostToDevice));
    cudaArray_t image = array_of(numbers(W * H), W, H);
    auto t = texture(image, cudaAddressModeWrap, cudaAddressModeWrap, true, true);
    fetched<float>("rotate", W * H, [&](float* out) { rotate<<<dim3(2, 1), dim3(8, 8)>>>(out, t, W, H, 0.5f); });
    t = texture(image, cudaAddressModeClamp, cudaAddressModeBorder, true, false);
    fetched<float>("clamp_border", N, [&](float* out) { fetch_2d<<<1, N>>>(out, t, at); });
    t = texture(image, cudaAddressModeMirror, cudaAddressModeWrap, false, true);
    fetched<float>("mirror_wrap", N, [&](float* out) { fetch_2d<<<1, N>>>(out, t, at); });
    t = texture(image, cudaAddressModeWrap, cudaAddressModeMirror, false, false);  // which clamps
    fetched<float>("unnormalized_wrap", N, [&](float* out) { fetch_2d<<<1, N>>>(out, t, at); });
    std::vector<uchar4> colours;
    for (int i = 0; i < W * H; ++i) colours.push_back(make_uchar4(i, 2 * i, 255 - i, 7));
    t = texture(array_of(colours, W, H), cudaAddressModeClamp, cudaAddressModeClamp, true, false, true);
    fetched<float4>("colours", N, [&](float4* out) { fetch_2d<<<1, N>>>(out, t, at); });
    std::vector<short2> shorts;
    for (int i = 0; i < W * H; ++i) shorts.push_back(make_short2(100 * i - 5000, -i));
    t = texture(array_of(shorts, W, H), cudaAddressModeClamp, cudaAddressModeClamp, false, false, true);
    fetched<float2>("shorts", N, [&](float2* out) { fetch_2d<<<1, N>>>(out, t, at); });
    t = texture(array_of(numbers(W), W, 0), cudaAddressModeClamp, cudaAddressModeClamp, true, false);
    fetched<float>("one", N, [&](float* out) { fetch_1d<<<1, N>>>(out, t, at); });
    t = texture(array_of(numbers(W), W, 1), cudaAddressModeClamp, cudaAddressModeClamp, true, false);
    fetched<float>("row", N, [&](float* out) { fetch_1d<<<1, N>>>(out, t, at); });

    cudaResourceDesc memory{};
    cudaTextureDesc as_floats{};
    signed char bytes[4] = {-128, -127, 0, 127}, *held;
    CHECK(cudaMalloc(&held, sizeof bytes));
    CHECK(cudaMemcpy(held, bytes, sizeof bytes, cudaMemcpyHostToDevice));
    memory.resType = cudaResourceTypeLinear, memory.res.linear.devPtr = held, memory.res.linear.sizeInBytes = sizeof bytes;
    memory.res.linear.desc = cudaCreateChannelDesc<signed char>();
    as_floats.readMode = cudaReadModeNormalizedFloat;
    CHECK(cudaCreateTextureObject(&t, &memory, &as_floats, nullptr));
    fetched<float>("memory", 5, [&](float* out) { fetch_linear<<<1, 5>>>(out, t); });

    cudaArray_t box;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMalloc3DArray(&box, &format, make_cudaExtent(2, 3, 4)));
    std::vector<float> content = numbers(24);
    cudaMemcpy3DParms copy{};
    copy.srcPtr = make_cudaPitchedPtr(content.data(), 2 * sizeof(float), 2, 3);
    copy.dstArray = box, copy.extent = make_cudaExtent(2, 3, 4), copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    t = texture(box, cudaAddressModeClamp, cudaAddressModeClamp, false, false);
    fetched<float>("box", 24, [&](float* out) { fetch_3d<<<1, 24>>>(out, t); });

    cudaArray_t from = array_of(numbers(W * H), W, H, cudaArraySurfaceLoadStore);
    cudaArray_t to = array_of(std::vector<float>{}, W, H, cudaArraySurfaceLoadStore);
    add_one<<<1, dim3(W, H)>>>(surface(to), surface(from));
    std::vector<float> back(W * H);
    CHECK(cudaMemcpy2DFromArray(back.data(), W * 4, to, 0, 0, W * 4, H, cudaMemcpyDeviceToHost));
    show("surface", back.data(), W * H);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(box));
}

void wrong(const char* what) {
    bool unset = !strcmp(what, "unset"), freed = !strcmp(what, "freed"), race = !strcmp(what, "race");
    float* out;
    CHECK(cudaMalloc(&out, W * H * 4));
    if (unset || freed || race) {
        cudaArray_t image = array_of(unset ? std::vector<float>{} : numbers(W * H), W, H);
        auto t = texture(image, cudaAddressModeWrap, cudaAddressModeWrap, true, true);
        cudaStream_t a, b;
        CHECK(cudaStreamCreate(&a));
        CHECK(cudaStreamCreate(&b));
        if (freed) CHECK(cudaFreeArray(image));
        rotate<<<dim3(2, 1), dim3(8, 8), 0, a>>>(out, t, W, H, 0.5f);
        float* other;
        CHECK(cudaMalloc(&other, W * H * 4));
        CHECK(cudaMemsetAsync(other, 0, W * H * 4, b));
        if (race) CHECK(cudaMemcpy2DToArrayAsync(image, 0, 0, other, W * 4, W * 4, H, cudaMemcpyDeviceToDevice, b));
        cudaDeviceSynchronize();
    } else if (!strcmp(what, "copy")) {
        std::vector<float> data = numbers(W * H);
        printf("%d\n", cudaMemcpy2DToArray(array_of(data, W, H), 4, 0, data.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    } else if (!strcmp(what, "surface")) {
        cudaResourceDesc r = resource(array_of(numbers(W * H), W, H));
        cudaSurfaceObject_t s;
        printf("%d\n", cudaCreateSurfaceObject(&s, &r));
    } else {
        cudaResourceDesc r = resource(array_of(std::vector<int>(W * H), W, H));
        cudaTextureDesc d{};
        d.filterMode = cudaFilterModeLinear;
        cudaTextureObject_t t;
        printf("%d\n", cudaCreateTextureObject(&t, &r, &d, nullptr));
    }
}

int main(int argc, char** argv) { argc > 1 ? wrong(argv[1]) : right(); }
