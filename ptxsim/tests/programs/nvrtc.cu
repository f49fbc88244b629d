// Compiles a kernel as it runs, to machine code, and launches it.
#include <cuda.h>
#include <nvrtc.h>

#include <vector>

#include "check.h"

int main() {
    nvrtcProgram program;
    const char *source = "template <int BY> __global__ void scale(int* x) { x[threadIdx.x] *= BY; }", *name = "scale<3>",
               *options[] = {"--gpu-architecture=sm_90"}, *lowered;
    EXPECT(nvrtcCreateProgram(&program, source, "scale.cu", 0, nullptr, nullptr) == NVRTC_SUCCESS);
    EXPECT(nvrtcAddNameExpression(program, name) == NVRTC_SUCCESS);
    EXPECT(nvrtcCompileProgram(program, 1, options) == NVRTC_SUCCESS);
    EXPECT(nvrtcGetLoweredName(program, name, &lowered) == NVRTC_SUCCESS);
    size_t size;
    EXPECT(nvrtcGetCUBINSize(program, &size) == NVRTC_SUCCESS);
    std::vector<char> image(size);
    EXPECT(nvrtcGetCUBIN(program, image.data()) == NVRTC_SUCCESS);
    int* x;
    CHECK(cudaMallocManaged(&x, 32 * sizeof(int)));
    for (int i = 0; i < 32; ++i) x[i] = i;
    CUmodule module;
    CUfunction kernel;
    EXPECT(cuModuleLoadData(&module, image.data()) == CUDA_SUCCESS);
    EXPECT(cuModuleGetFunction(&kernel, module, lowered) == CUDA_SUCCESS);
    void* arguments[] = {&x};
    EXPECT(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
    CHECK(cudaDeviceSynchronize());
    nvrtcDestroyProgram(&program);
    printf("%s: %d\n", nvrtcGetErrorString(NVRTC_ERROR_COMPILATION), x[31]);
}
