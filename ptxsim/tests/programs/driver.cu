// The driver API alone: a module of PTX text and one of a file, parameters in a buffer, a library.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define DO(call)                                                                      \
    do {                                                                              \
        CUresult code_ = (call);                                                      \
        if (code_ != CUDA_SUCCESS) {                                                  \
            const char* name_ = "?";                                                  \
            cuGetErrorName(code_, &name_);                                            \
            printf("%s:%d: %s\n", __FILE__, __LINE__, name_);                         \
            exit(3);                                                                  \
        }                                                                             \
    } while (0)
#define EXPECT(condition)                                                  \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(4);                                                       \
        }                                                                  \
    } while (0)

static const char PTX[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 offset = 7;
.visible .entry add(.param .u64 data, .param .u32 n, .param .align 8 .b8 pair[16])
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .reg .pred %p;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [pair+8];
    mov.u32 %r3, %tid.x;
    setp.ge.u32 %p, %r3, %r1;
    @%p ret;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r4, [%rd3];
    ld.global.u32 %r5, [offset];
    add.u32 %r4, %r4, %r5;
    add.u32 %r4, %r4, %r2;
    st.global.u32 [%rd3], %r4;
    ret;
}
)";

struct Pair {
    double unused;
    int added;
};

int main(int argc, char** argv) {
    DO(cuInit(0));
    CUdevice device;
    DO(cuDeviceGet(&device, 0));
    char name[100];
    DO(cuDeviceGetName(name, sizeof name, device));
    int major = 0;
    DO(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    EXPECT(major == 9);
    CUcontext context;
    DO(cuDevicePrimaryCtxRetain(&context, device));
    DO(cuCtxSetCurrent(context));
    CUmodule module;
    DO(cuModuleLoadData(&module, PTX));
    CUfunction add;
    DO(cuModuleGetFunction(&add, module, "add"));
    CUfunction none;
    size_t offset, size;
    DO(cuFuncGetParamInfo(add, 2, &offset, &size));
    EXPECT(offset == 16 && size == 16 && cuFuncGetParamInfo(add, 3, &offset, &size) == CUDA_ERROR_INVALID_VALUE);
    const int n = 50;
    CUdeviceptr data, variable;
    DO(cuMemAlloc(&data, n * 4));
    DO(cuMemsetD32(data, 100, n));
    DO(cuModuleGetGlobal(&variable, &size, module, "offset"));
    EXPECT(size == 4);
    int count = n, back[n];
    Pair pair{0, 1000};
    void* arguments[] = {&data, &count, &pair};
    CUstream stream;
    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DO(cuCtxSynchronize());  // such a stream does not wait for the memset
    DO(cuLaunchKernel(add, 1, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr));
    int thirty = 30;
    DO(cuStreamSynchronize(stream));  // nor does the copy for its kernel, which reads the variable
    DO(cuMemcpyHtoD(variable, &thirty, 4));
    struct {
        CUdeviceptr data;
        int n, pad;
        Pair pair;
    } packed{data, n, 0, {0, 5}};
    size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    DO(cuLaunchKernel(add, 1, 1, 1, 64, 1, 1, 0, stream, nullptr, extra));
    DO(cuStreamSynchronize(stream));
    DO(cuMemcpyDtoH(back, data, n * 4));
    for (int x : back) EXPECT(x == 100 + 1007 + 35);

    CUlibrary library;
    DO(cuLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel kernel;
    DO(cuLibraryGetKernel(&kernel, library, "add"));
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1, config.blockDimX = 64, config.blockDimY = config.blockDimZ = 1;
    DO(cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), arguments, nullptr));
    DO(cuMemcpyDtoH(back, data, n * 4));
    for (int x : back) EXPECT(x == 100 + 1007 + 35 + 1007);
    if (argc > 1) {
        CUmodule file;
        DO(cuModuleLoad(&file, argv[1]));
        DO(cuModuleGetFunction(&none, file, "add"));
        DO(cuModuleUnload(file));
    }
    void* entry = nullptr;
    DO(cuGetProcAddress("cuMemAlloc", &entry, 12000, 0, nullptr));
    EXPECT(entry == reinterpret_cast<void*>(&cuMemAlloc));
    DO(cuMemFree(data));
    DO(cuModuleUnload(module));
    printf("PASS on %s\n", name);
}
