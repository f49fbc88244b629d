// The driver API, libcuda.so.1, over core.hpp. Work is done when it is asked for, so that streams and events are in order.
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "core.hpp"

using namespace ptxsim;

#define DO(...) return CUresult(__VA_ARGS__)
#define BEGIN            \
    PTXSIM_ENTER;        \
    if (int code_ = ready()) return CUresult(code_)
#define QUERY /* of what an error of the context does not concern */ \
    PTXSIM_ENTER;                                                   \
    if (int code_ = connected()) return CUresult(code_)
#define NEED(condition, ...) \
    if (!(condition)) return CUresult(fail(INVALID_VALUE, __VA_ARGS__))
#define NEED_DEVICE(dev) \
    if ((dev) != 0) return CUresult(fail(INVALID_DEVICE, "there is one device, 0, not %d", int(dev)))

struct CUctx_st { int unused; };
struct CUstream_st { unsigned flags; int priority; unsigned long long id; };
struct CUevent_st {
    unsigned flags;
    bool recorded;
    uint64_t ns;
    uint64_t capture;                    // in which it was recorded last; 0: none
    std::vector<CUgraphNode_st*> after;  // the nodes before it there
};

namespace {
CUctx_st context;
CUcontext current = nullptr;
bool primary_active = false;
std::set<CUstream> streams;
std::set<CUevent> events;
struct Registered {
    uint64_t size;
    void* shared;  // its pages in memory of kernels, once somebody asks for that
};
std::map<uint64_t, Registered> registered;  // of cuMemHostRegister
constexpr uint64_t OF_PAGE = 4095;
std::set<Module*> live_modules;
unsigned long long next_id = 3;
bool capture_failed = false;  // so that a null graph is its consequence
const struct { int code; const char *name, *text; } ERRORS[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {4, "cudaErrorCudartUnloading", "driver shutting down"},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {46, "cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {200, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {201, "cudaErrorDeviceUninitialized", "invalid device context"},
    {209, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {215, "cudaErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {218, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {301, "cudaErrorFileNotFound", "file not found"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {401, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {500, "cudaErrorSymbolNotFound", "named symbol not found"},
    {600, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {710, "cudaErrorAssert", "device-side assert triggered"},
    {712, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
    {713, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered"},
    {716, "cudaErrorMisalignedAddress", "misaligned address"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture"},
    {902, "cudaErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences"},
    {903, "cudaErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {904, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {905, "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"},
    {906, "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "cudaErrorStreamCaptureWrongThread", "attempt to terminate a thread-local capture sequence from another thread"},
    {910, "cudaErrorGraphExecUpdateFailure", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
    {912, "cudaErrorInvalidClusterSize", "cluster misconfiguration"},
    {999, "cudaErrorUnknown", "unknown error"},
};
const struct { int code; const char* name; } DRIVER_NAMES[] = {
    {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {215, "CUDA_ERROR_UNSUPPORTED_LIMIT"}, {218, "CUDA_ERROR_INVALID_PTX"}, {301, "CUDA_ERROR_FILE_NOT_FOUND"},
    {400, "CUDA_ERROR_INVALID_HANDLE"}, {401, "CUDA_ERROR_ILLEGAL_STATE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {710, "CUDA_ERROR_ASSERT"}, {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"}, {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"}, {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"}, {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"}, {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}, {907, "CUDA_ERROR_CAPTURED_EVENT"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"}, {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"}, {999, "CUDA_ERROR_UNKNOWN"},
};

bool is_stream(CUstream s) { return uintptr_t(s) <= 2 || streams.count(s); }
void* pointer(CUdeviceptr p) { return reinterpret_cast<void*>(p); }
Kernel* kernel_of(const void* f) { return static_cast<Kernel*>(const_cast<void*>(f)); }
size_t* limit_at(CUlimit limit) {  // null: the device has none
    static std::map<int, size_t> limits{
        {CU_LIMIT_STACK_SIZE, 1024}, {CU_LIMIT_PRINTF_FIFO_SIZE, 8650752}, {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
        {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048}, {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
        {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, size_t(gpu().persisting_l2) / 10 * 3}};
    auto found = limits.find(limit);
    return found == limits.end() ? nullptr : &found->second;
}
// Why an event cannot be waited for or queried now, as the captured one that it is or as any.
int permit_event(CUevent e) {
    if (Capture* c = capture_of(e->capture)) return invalidate(c, CAPTURED_EVENT, "the event was recorded in a stream that is captured");
    return e->capture ? fail(INVALID_VALUE, "the event was recorded last in a stream while that was captured: it is a part of the graph") : permit_call();
}
int driver_code(int code) { return code == INVALID_CONFIGURATION || code == 12 ? INVALID_VALUE : code; }

#define NEED_STREAM(s) \
    if (!is_stream(s)) return CUresult(fail(INVALID_HANDLE, "%p is no stream", static_cast<void*>(s))); \
    of_stream(s)
#define PERMIT(permit) \
    if (int code_ = permit) return CUresult(code_)
#define NEED_EVENT(e) \
    if (!events.count(e)) return CUresult(fail(INVALID_HANDLE, "%p is no event", static_cast<void*>(e)))
}  // namespace

namespace ptxsim {
const char* runtime_error_name(int code) {
    for (auto& e : ERRORS) if (e.code == code) return e.name;
    return nullptr;
}

int attribute(int which, int* value) {
    const Gpu& g = gpu();
    switch (which) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: case CU_DEVICE_ATTRIBUTE_MAX_PITCH: *value = 2147483647; break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 * 1024; break;
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 65536; break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: *value = 65536; break;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = g.clock_khz; break;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: *value = 512; break;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: *value = 32; break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = g.sms; break;
        case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP: case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED: case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED: case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
        case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: *value = g.major >= 9; break;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = g.memory_clock_khz; break;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = g.bus_bits; break;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = g.l2_bytes; break;
        case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE: *value = g.persisting_l2; break;
        case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE: *value = g.window_bytes; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = g.threads_per_sm; break;
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 3; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = g.major; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = g.minor; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = g.shared_per_sm; break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = g.registers_per_sm; break;
        case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: *value = 2; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = g.shared_optin; break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = g.blocks_per_sm; break;
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH: *value = 1 << 28; break;
        default:
            if (which < 1 || which >= CU_DEVICE_ATTRIBUTE_MAX) return fail(INVALID_VALUE, "%d is no attribute of a device", which);
            *value = 0;  // what the emulated device does not have
    }
    return OK;
}

void* entry_point(const char* name) {
    static void* self = nullptr;
    if (self == nullptr) {
        Dl_info info;
        if (dladdr(reinterpret_cast<void*>(&entry_point), &info)) self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    extern const char* const missing_names[];
    void* stub = nullptr;
    if (strncmp(name, "cu", 2) != 0) return nullptr;
    for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
        std::string full = std::string(name) + suffix;
        void* found = dlsym(self, full.c_str());
        if (found == nullptr) continue;
        bool is_stub = false;
        for (const char* const* m = missing_names; *m; ++m) is_stub |= full == *m;
        if (!is_stub) return found;
        if (stub == nullptr) stub = found;
    }
    return stub;
}
int set_attributes(Launch* what, const Kernel* k, const void* attributes, unsigned count) {
    auto* list = static_cast<const CUlaunchAttribute*>(attributes);
    for (unsigned i = 0; i < count; ++i) {
        auto& value = list[i].value;
        switch (list[i].id) {
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                what->cluster[0] = value.clusterDim.x, what->cluster[1] = value.clusterDim.y, what->cluster[2] = value.clusterDim.z;
                break;
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: what->cooperative = value.cooperative; break;
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: what->dependent = value.programmaticStreamSerializationAllowed; break;
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
                return fail(NOT_SUPPORTED, "attribute %d of a launch is not emulated", int(list[i].id));
            default: break;  // a hint, which changes no result
        }
    }
    unsigned of_cluster = what->cluster[0] * what->cluster[1] * what->cluster[2];
    if (of_cluster <= 8 || k->non_portable_cluster) return OK;
    return fail(912, "a cluster of %u blocks; more than 8 need cudaFuncAttributeNonPortableClusterSizeAllowed", of_cluster);
}
}  // namespace ptxsim

extern "C" {
PTXSIM_API CUresult cuGetErrorName(CUresult error, const char** text) {
    for (auto& e : DRIVER_NAMES)
        if (e.code == int(error)) { *text = e.name; return CUDA_SUCCESS; }
    *text = runtime_error_name(int(error));
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
PTXSIM_API CUresult cuGetErrorString(CUresult error, const char** text) {
    for (auto& e : ERRORS)
        if (e.code == int(error)) { *text = e.text; return CUDA_SUCCESS; }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

PTXSIM_API CUresult cuInit(unsigned) { QUERY; DO(OK); }
PTXSIM_API CUresult cuDriverGetVersion(int* version) { *version = CUDA_VERSION; DO(OK); }
PTXSIM_API CUresult cuDeviceGet(CUdevice* device, int ordinal) { QUERY; NEED_DEVICE(ordinal); *device = 0; DO(OK); }
PTXSIM_API CUresult cuDeviceGetCount(int* count) { *count = 0; QUERY; *count = 1; DO(OK); }
PTXSIM_API CUresult cuDeviceGetName(char* name, int size, CUdevice dev) {
    QUERY; NEED_DEVICE(dev);
    snprintf(name, size_t(size), "%s", gpu().name.c_str());
    DO(OK);
}
PTXSIM_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
    QUERY; NEED_DEVICE(dev);
    memcpy(uuid->bytes, "ptxsim, emulated", 16);
    DO(OK);
}
PTXSIM_API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) { QUERY; NEED_DEVICE(dev); *bytes = gpu().memory; DO(OK); }
PTXSIM_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice dev) {
    QUERY; NEED_DEVICE(dev);
    DO(attribute(int(which), value));
}
PTXSIM_API CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format, unsigned, CUdevice dev) {
    QUERY; NEED_DEVICE(dev); *width = 1 << 28; DO(OK);
}
PTXSIM_API CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
    QUERY; NEED_DEVICE(dev); *major = gpu().major; *minor = gpu().minor; DO(OK);
}
PTXSIM_API CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice dev) {
    QUERY; NEED_DEVICE(dev); snprintf(id, size_t(size), "0000:00:00.0"); DO(OK);
}
PTXSIM_API CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char*) { QUERY; *dev = 0; DO(OK); }
PTXSIM_API CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) { QUERY; *can = 0; DO(OK); }
PTXSIM_API CUresult cuDeviceGetExecAffinitySupport(int* value, CUexecAffinityType, CUdevice) { QUERY; *value = 0; DO(OK); }

PTXSIM_API CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice dev) {
    QUERY; NEED_DEVICE(dev); primary_active = true; *out = &context; DO(OK);
}
PTXSIM_API CUresult cuDevicePrimaryCtxRelease(CUdevice dev) { BEGIN; NEED_DEVICE(dev); DO(OK); }
PTXSIM_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned) { BEGIN; NEED_DEVICE(dev); DO(OK); }
PTXSIM_API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned* flags, int* active) {
    BEGIN; NEED_DEVICE(dev); *flags = 0; *active = primary_active; DO(OK);
}
PTXSIM_API CUresult cuDevicePrimaryCtxReset(CUdevice dev) { PTXSIM_ENTER; NEED_DEVICE(dev); reset(); DO(OK); }
PTXSIM_API CUresult cuCtxCreate(CUcontext* out, CUctxCreateParams*, unsigned, CUdevice dev) {
    BEGIN; NEED_DEVICE(dev); *out = current = &context; DO(OK);
}
PTXSIM_API CUresult cuCtxCreate_v2(CUcontext* out, unsigned, CUdevice dev) { return cuCtxCreate(out, nullptr, 0, dev); }
PTXSIM_API CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int, unsigned, CUdevice dev) {
    return cuCtxCreate(out, nullptr, 0, dev);
}
PTXSIM_API CUresult cuCtxDestroy(CUcontext) { PTXSIM_ENTER; reset(); current = nullptr; DO(OK); }
PTXSIM_API CUresult cuCtxPushCurrent(CUcontext c) { BEGIN; current = c; DO(OK); }
PTXSIM_API CUresult cuCtxPopCurrent(CUcontext* c) { BEGIN; if (c) *c = current; current = nullptr; DO(OK); }
PTXSIM_API CUresult cuCtxSetCurrent(CUcontext c) { BEGIN; current = c; DO(OK); }
PTXSIM_API CUresult cuCtxGetCurrent(CUcontext* c) { BEGIN; *c = current; DO(OK); }
PTXSIM_API CUresult cuCtxGetDevice(CUdevice* dev) { BEGIN; *dev = 0; DO(OK); }
PTXSIM_API CUresult cuCtxGetDevice_v2(CUdevice* dev, CUcontext) { BEGIN; *dev = 0; DO(OK); }
PTXSIM_API CUresult cuCtxGetFlags(unsigned* flags) { BEGIN; *flags = 0; DO(OK); }
PTXSIM_API CUresult cuCtxSetFlags(unsigned) { BEGIN; DO(OK); }
PTXSIM_API CUresult cuCtxGetId(CUcontext, unsigned long long* id) { BEGIN; *id = 1; DO(OK); }
PTXSIM_API CUresult cuCtxSynchronize(void) { PTXSIM_ENTER; int code = sticky(); PERMIT(permit_wait()); order(ALL_DONE); DO(code ? code : sticky()); }
PTXSIM_API CUresult cuCtxSynchronize_v2(CUcontext) { PTXSIM_ENTER; return cuCtxSynchronize(); }
PTXSIM_API CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
    BEGIN; NEED(value, "a null pointer");
    if (size_t* found = limit_at(limit)) *value = *found;
    else DO(fail(limit < CU_LIMIT_MAX ? 215 : INVALID_VALUE, "limit %d is not one of the device's", int(limit)));
    DO(OK);
}
PTXSIM_API CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    BEGIN;
    size_t* held = limit_at(limit);
    if (held == nullptr) DO(fail(215, "limit %d is not one of the device's", int(limit)));
    NEED(limit != CU_LIMIT_PERSISTING_L2_CACHE_SIZE || value <= size_t(gpu().persisting_l2), "%zu bytes of persisting L2; the device has %d", value, gpu().persisting_l2);
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && value > *held) note(ONCE, "the heap of malloc in kernels keeps its %zu bytes: another size is not emulated", *held);
    else *held = value;
    DO(OK);
}
PTXSIM_API CUresult cuCtxGetCacheConfig(CUfunc_cache* c) { BEGIN; *c = CU_FUNC_CACHE_PREFER_NONE; DO(OK); }
PTXSIM_API CUresult cuCtxSetCacheConfig(CUfunc_cache) { BEGIN; DO(OK); }
PTXSIM_API CUresult cuCtxGetApiVersion(CUcontext, unsigned* v) { BEGIN; *v = CUDA_VERSION; DO(OK); }
PTXSIM_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    BEGIN; if (least) *least = 0; if (greatest) *greatest = -5; DO(OK);
}
PTXSIM_API CUresult cuCtxResetPersistingL2Cache(void) { BEGIN; DO(OK); }

// modules and libraries: one thing here

PTXSIM_API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
    BEGIN; NEED(out && image, "a null pointer");
    Module* m = new_module(image);
    if (int code = load(m)) return CUresult(code);
    m->image = nullptr;  // the program may free it now
    live_modules.insert(m);
    *out = reinterpret_cast<CUmodule>(m);
    DO(OK);
}
PTXSIM_API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) { return cuModuleLoadData(out, image); }
PTXSIM_API CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) { return cuModuleLoadData(out, image); }
PTXSIM_API CUresult cuModuleLoad(CUmodule* out, const char* name) {
    BEGIN; NEED(out && name, "a null pointer");
    FILE* file = fopen(name, "rbe");
    if (file == nullptr) DO(fail(301, "%s: no such file", name));
    std::string content;
    char part[65536];
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) content.append(part, n);
    fclose(file);
    content.push_back('\0');
    return cuModuleLoadData(out, content.data());
}
PTXSIM_API CUresult cuModuleUnload(CUmodule module) {
    BEGIN;
    auto* m = reinterpret_cast<Module*>(module);
    if (!live_modules.erase(m)) DO(fail(INVALID_HANDLE, "%p is no module", static_cast<void*>(module)));
    unload(m);
    DO(OK);
}
PTXSIM_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
    BEGIN; NEED(out && name, "a null pointer");
    Kernel* k = nullptr;
    int code = get_kernel(reinterpret_cast<Module*>(module), name, &k);
    *out = reinterpret_cast<CUfunction>(k);
    DO(code == NOT_FOUND ? fail(NOT_FOUND, "no kernel %s in the module", name) : code);
}
PTXSIM_API CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
    BEGIN; *count = unsigned(reinterpret_cast<Module*>(module)->names.size()); DO(OK);
}
PTXSIM_API CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned count, CUmodule module) {
    BEGIN;
    auto* m = reinterpret_cast<Module*>(module);
    for (unsigned i = 0; i < count && i < m->names.size(); ++i) {
        Kernel* k = nullptr;
        if (int code = get_kernel(m, m->names[i].c_str(), &k)) return CUresult(code);
        out[i] = reinterpret_cast<CUfunction>(k);
    }
    DO(OK);
}
PTXSIM_API CUresult cuModuleGetGlobal(CUdeviceptr* at, size_t* bytes, CUmodule module, const char* name) {
    BEGIN;
    Variable* v = nullptr;
    int code = get_variable(reinterpret_cast<Module*>(module), name, &v);
    if (code) DO(code == NOT_FOUND ? fail(code, "no variable %s in the module", name) : code);
    if (at) *at = v->address;
    if (bytes) *bytes = v->size;
    DO(OK);
}
PTXSIM_API CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) { *mode = CU_MODULE_LAZY_LOADING; DO(OK); }
PTXSIM_API CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
    PTXSIM_ENTER;
    return cuModuleLoadData(reinterpret_cast<CUmodule*>(out), code);
}
PTXSIM_API CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* name, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
    PTXSIM_ENTER;
    return cuModuleLoad(reinterpret_cast<CUmodule*>(out), name);
}
PTXSIM_API CUresult cuLibraryUnload(CUlibrary library) { PTXSIM_ENTER; return cuModuleUnload(reinterpret_cast<CUmodule>(library)); }
PTXSIM_API CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
    PTXSIM_ENTER;
    return cuModuleGetFunction(reinterpret_cast<CUfunction*>(out), reinterpret_cast<CUmodule>(library), name);
}
PTXSIM_API CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) { return cuModuleGetFunctionCount(count, reinterpret_cast<CUmodule>(library)); }
PTXSIM_API CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned count, CUlibrary library) {
    PTXSIM_ENTER;
    return cuModuleEnumerateFunctions(reinterpret_cast<CUfunction*>(out), count, reinterpret_cast<CUmodule>(library));
}
PTXSIM_API CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) { *out = reinterpret_cast<CUmodule>(library); DO(OK); }
PTXSIM_API CUresult cuLibraryGetGlobal(CUdeviceptr* at, size_t* bytes, CUlibrary library, const char* name) {
    PTXSIM_ENTER;
    return cuModuleGetGlobal(at, bytes, reinterpret_cast<CUmodule>(library), name);
}
PTXSIM_API CUresult cuLibraryGetManaged(CUdeviceptr* at, size_t* bytes, CUlibrary library, const char* name) {
    PTXSIM_ENTER;
    return cuModuleGetGlobal(at, bytes, reinterpret_cast<CUmodule>(library), name);
}
PTXSIM_API CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) { *out = reinterpret_cast<CUfunction>(kernel); DO(OK); }
PTXSIM_API CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) { *out = reinterpret_cast<CUlibrary>(kernel_of(kernel)->module); DO(OK); }
PTXSIM_API CUresult cuKernelGetName(const char** name, CUkernel kernel) { *name = kernel_of(kernel)->name.c_str(); DO(OK); }
PTXSIM_API CUresult cuFuncGetName(const char** name, CUfunction f) { *name = kernel_of(f)->name.c_str(); DO(OK); }
PTXSIM_API CUresult cuFuncGetModule(CUmodule* out, CUfunction f) { *out = reinterpret_cast<CUmodule>(kernel_of(f)->module); DO(OK); }
PTXSIM_API CUresult cuFuncLoad(CUfunction) { DO(OK); }
PTXSIM_API CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction) { *state = CU_FUNCTION_LOADING_STATE_LOADED; DO(OK); }
PTXSIM_API CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t* offset, size_t* size) {
    Kernel* k = kernel_of(f);
    if (index >= k->parameters.size()) return CUDA_ERROR_INVALID_VALUE;  // how callers find the end
    *offset = k->parameters[index].offset;
    if (size) *size = k->parameters[index].size;
    DO(OK);
}
PTXSIM_API CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
    return cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), index, offset, size);
}
PTXSIM_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction f) {
    BEGIN; NEED(f, "a null kernel");
    Kernel* k = kernel_of(f);
    switch (which) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = int(k->max_threads); break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = int(k->static_shared); break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = int(k->constant_bytes); break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = int(k->local_bytes); break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = int(k->registers);
            if (!*value) note(ONCE, "how many registers %s needs is not known without machine code (SASS) in the program: 0 is given", k->name.c_str());
            break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = gpu().major * 10 + gpu().minor; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = k->dynamic_limit >= 0 ? k->dynamic_limit : std::max(0, 48 * 1024 - int(k->static_shared));
            break;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = k->carveout; break;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = k->non_portable_cluster; break;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = 0; break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = int(k->cluster[0]); break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = int(k->cluster[1]); break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = int(k->cluster[2]); break;
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = 0; break;
        default: DO(fail(INVALID_VALUE, "%d is no attribute of a kernel", int(which)));
    }
    DO(OK);
}
PTXSIM_API CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value) {
    BEGIN; NEED(f, "a null kernel");
    Kernel* k = kernel_of(f);
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) DO(set_dynamic_limit(k, value));
    if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) k->carveout = value;
    else if (which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) k->non_portable_cluster = value;
    else if (which != CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE) DO(fail(INVALID_VALUE, "attribute %d of a kernel cannot be set", int(which)));
    DO(OK);
}
PTXSIM_API CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel kernel, CUdevice) {
    PTXSIM_ENTER;
    return cuFuncGetAttribute(value, which, reinterpret_cast<CUfunction>(kernel));
}
PTXSIM_API CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel, CUdevice) {
    PTXSIM_ENTER;
    return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), which, value);
}
PTXSIM_API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { BEGIN; DO(OK); }
PTXSIM_API CUresult cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) { BEGIN; DO(OK); }
PTXSIM_API CUresult cuFuncSetSharedMemConfig(CUfunction, CUsharedconfig) { BEGIN; DO(OK); }

// memory

PTXSIM_API CUresult cuMemGetInfo(size_t* left, size_t* total) {
    BEGIN; *total = gpu().memory; *left = gpu().memory - allocated(); DO(OK);
}
PTXSIM_API CUresult cuMemAlloc(CUdeviceptr* out, size_t bytes) {
    BEGIN; NEED(out && bytes, "%s", out ? "0 bytes" : "a null pointer");
    void* p = nullptr;
    int code = allocate(bytes, DEVICE, &p);
    *out = CUdeviceptr(p);
    DO(code);
}
PTXSIM_API CUresult cuMemAllocPitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned) {
    PTXSIM_ENTER;
    *pitch = (width + 511) / 512 * 512;
    return cuMemAlloc(out, *pitch * height);
}
PTXSIM_API CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned) {
    BEGIN; NEED(out && bytes, "%s", out ? "0 bytes" : "a null pointer");
    void* p = nullptr;
    int code = allocate(bytes, MANAGED, &p);
    *out = CUdeviceptr(p);
    DO(code);
}
PTXSIM_API CUresult cuMemFree(CUdeviceptr p) { BEGIN; DO(release(pointer(p), false)); }
PTXSIM_API CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream s) {
    BEGIN; NEED_STREAM(s); NEED(out, "a null pointer");
    void* p = nullptr;
    int code = capturing(s) ? allocate_in_graph(bytes, &p) : allocate(bytes, DEVICE, &p);
    *out = CUdeviceptr(p);
    DO(code);
}
PTXSIM_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool, CUstream s) { PTXSIM_ENTER; return cuMemAllocAsync(out, bytes, s); }
PTXSIM_API CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { PTXSIM_ENTER; NEED_STREAM(s); if (put_off([=] { return int(cuMemFree(p)); })) DO(OK); return cuMemFree(p); }
PTXSIM_API CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned flags) { BEGIN; NEED(out, "a null pointer"); DO(allocate(bytes, HOST, out, flags)); }
PTXSIM_API CUresult cuMemAllocHost(void** out, size_t bytes) { PTXSIM_ENTER; return cuMemHostAlloc(out, bytes, 0); }
PTXSIM_API CUresult cuMemFreeHost(void* p) { BEGIN; DO(release(p, true)); }
PTXSIM_API CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* p, unsigned) {
    BEGIN;
    const Block* b = is_device_range(p) ? find(p) : nullptr;
    auto after = registered.upper_bound(uint64_t(p));
    if (after != registered.begin()) {
        auto& [start, r] = *std::prev(after);
        uint64_t first = start & ~OF_PAGE, size = (start + r.size + OF_PAGE & ~OF_PAGE) - first;
        if (uint64_t(p) < start + r.size) {
            if (r.shared == nullptr)
                if (int code = share(reinterpret_cast<void*>(first), size, &r.shared)) DO(code);
            *out = CUdeviceptr(r.shared) + (uint64_t(p) - first);
            DO(OK);
        }
    }
    NEED(b && b->kind == HOST, "%p is memory of neither cudaHostAlloc nor cudaHostRegister", p);
    *out = CUdeviceptr(p);
    DO(OK);
}
PTXSIM_API CUresult cuMemHostGetFlags(unsigned* flags, void* p) {
    BEGIN;
    const Block* b = is_device_range(p) ? find(p) : nullptr;
    NEED(b && b->kind == HOST, "%p is not memory of cudaHostAlloc", p);
    *flags = b->flags;
    DO(OK);
}
PTXSIM_API CUresult cuMemHostRegister(void* p, size_t size, unsigned) {
    BEGIN; NEED(p && size, "no memory");
    if (!registered.insert({uint64_t(p), {size, nullptr}}).second) DO(fail(712, "%p is registered already", p));
    DO(OK);
}
PTXSIM_API CUresult cuMemHostUnregister(void* p) {
    BEGIN;
    auto it = registered.find(uint64_t(p));
    if (it == registered.end()) DO(fail(713, "%p is not registered", p));
    auto [start, r] = *it;
    uint64_t first = start & ~OF_PAGE;
    registered.erase(it);
    if (r.shared == nullptr) DO(OK);
    DO(unshare(reinterpret_cast<void*>(first), (start + r.size + OF_PAGE & ~OF_PAGE) - first, r.shared));
}
PTXSIM_API CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr p) {
    BEGIN;
    const Block* b = find(pointer(p));
    if (b == nullptr) DO(fail(NOT_FOUND, "%p is in no allocation", pointer(p)));
    if (base) *base = b->address;
    if (size) *size = b->size;
    DO(OK);
}
PTXSIM_API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr p) {
    BEGIN;
    const Block* b = is_device_range(pointer(p)) ? find(pointer(p)) : nullptr;
    if (b == nullptr) return CUDA_ERROR_INVALID_VALUE;  // how callers tell memory that is not CUDA's
    switch (which) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: *static_cast<CUcontext*>(data) = &context; break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<unsigned*>(data) = b->kind == HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (which == CU_POINTER_ATTRIBUTE_HOST_POINTER && !host_may_touch(b->kind)) return CUDA_ERROR_INVALID_VALUE;
            *static_cast<CUdeviceptr*>(data) = p;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned*>(data) = b->kind == MANAGED || b->kind == MANAGED_VARIABLE; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data) = 0; break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(data) = b->address; break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<size_t*>(data) = b->size; break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: *static_cast<unsigned long long*>(data) = b->address; break;
        case CU_POINTER_ATTRIBUTE_MAPPED: *static_cast<unsigned*>(data) = 1; break;
        default: DO(fail(NOT_SUPPORTED, "attribute %d of a pointer is not emulated", int(which)));
    }
    DO(OK);
}
PTXSIM_API CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data, CUdeviceptr p) {
    PTXSIM_ENTER;
    for (unsigned i = 0; i < count; ++i)
        if (cuPointerGetAttribute(data[i], which[i], p) != CUDA_SUCCESS)
            memset(data[i], 0, which[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || which[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED || which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? 4 : 8);
    DO(OK);
}
PTXSIM_API CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream s) { BEGIN; NEED_STREAM(s); DO(OK); }
PTXSIM_API CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) { BEGIN; DO(OK); }
#undef cuMemPrefetchAsync
#undef cuMemAdvise
PTXSIM_API CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream s) { BEGIN; NEED_STREAM(s); DO(OK); }
PTXSIM_API CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) { BEGIN; DO(OK); }

#define COPY(name, to_type, from_type, direction)                                                              \
    PTXSIM_API CUresult name(to_type to, from_type from, size_t n) {                                           \
        BEGIN;                                                                                                 \
        DO(copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), n, direction));              \
    }                                                                                                          \
    PTXSIM_API CUresult PTXSIM_ASYNC_##name(to_type to, from_type from, size_t n, CUstream s) {                \
        BEGIN;                                                                                                 \
        NEED_STREAM(s);                                                                                        \
        DO(copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), n, direction));              \
    }
#define PTXSIM_ASYNC_cuMemcpy cuMemcpyAsync
#define PTXSIM_ASYNC_cuMemcpyHtoD_v2 cuMemcpyHtoDAsync
#define PTXSIM_ASYNC_cuMemcpyDtoH_v2 cuMemcpyDtoHAsync
#define PTXSIM_ASYNC_cuMemcpyDtoD_v2 cuMemcpyDtoDAsync
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuMemcpyDtoD
COPY(cuMemcpy, CUdeviceptr, CUdeviceptr, ANY)
COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void*, TO_DEVICE)
COPY(cuMemcpyDtoH_v2, void*, CUdeviceptr, TO_HOST)
COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, WITHIN_DEVICE)

PTXSIM_API CUresult cuMemcpy3D(const CUDA_MEMCPY3D* c) {
    BEGIN; NEED(c, "a null pointer");
    auto side = [c](CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, size_t x, size_t y, size_t z, size_t pitch, size_t rows, Side* out) {
        if (type == CU_MEMORYTYPE_ARRAY) return array_side(array, x, y, z, c->WidthInBytes, c->Height, c->Depth, out);
        pitch = pitch ? pitch : c->WidthInBytes, rows = rows ? rows : c->Height;
        const void* base = type == CU_MEMORYTYPE_HOST ? host : pointer(device);
        *out = Side{static_cast<char*>(const_cast<void*>(base)) + x + (y + z * rows) * pitch, pitch, rows};
        return OK;
    };
    Side from, to;
    if (int code = side(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch, c->srcHeight, &from))
        DO(code);
    if (int code = side(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, c->dstZ, c->dstPitch, c->dstHeight, &to))
        DO(code);
    DO(driver_code(copy_boxes(to, from, c->WidthInBytes, c->Height, c->Depth, ANY)));
}
PTXSIM_API CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* c, CUstream s) { PTXSIM_ENTER; NEED_STREAM(s); return cuMemcpy3D(c); }
PTXSIM_API CUresult cuMemcpy2D(const CUDA_MEMCPY2D* c) {
    PTXSIM_ENTER; NEED(c, "a null pointer");
    CUDA_MEMCPY3D d{};
    d.srcXInBytes = c->srcXInBytes, d.srcY = c->srcY, d.srcMemoryType = c->srcMemoryType, d.srcHost = c->srcHost;
    d.srcDevice = c->srcDevice, d.srcArray = c->srcArray, d.srcPitch = c->srcPitch;
    d.dstXInBytes = c->dstXInBytes, d.dstY = c->dstY, d.dstMemoryType = c->dstMemoryType, d.dstHost = c->dstHost;
    d.dstDevice = c->dstDevice, d.dstArray = c->dstArray, d.dstPitch = c->dstPitch, d.WidthInBytes = c->WidthInBytes, d.Height = c->Height, d.Depth = 1;
    return cuMemcpy3D(&d);
}
PTXSIM_API CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* c) { PTXSIM_ENTER; return cuMemcpy2D(c); }
PTXSIM_API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* c, CUstream s) { PTXSIM_ENTER; NEED_STREAM(s); return cuMemcpy2D(c); }

#define MEMSET(name, name2, type, size)                                                                                                              \
    PTXSIM_API CUresult name(CUdeviceptr p, type v, size_t n) { BEGIN; DO(fill(pointer(p), n * size, v, size, n, 1)); }                              \
    PTXSIM_API CUresult name##Async(CUdeviceptr p, type v, size_t n, CUstream s) { BEGIN; NEED_STREAM(s); DO(fill(pointer(p), n * size, v, size, n, 1)); } \
    PTXSIM_API CUresult name2(CUdeviceptr p, size_t pitch, type v, size_t w, size_t h) { BEGIN; DO(fill(pointer(p), pitch, v, size, w, h)); }         \
    PTXSIM_API CUresult name2##Async(CUdeviceptr p, size_t pitch, type v, size_t w, size_t h, CUstream s) { BEGIN; NEED_STREAM(s); DO(fill(pointer(p), pitch, v, size, w, h)); }
#undef cuMemsetD8
#undef cuMemsetD16
#undef cuMemsetD32
#undef cuMemsetD2D8
#undef cuMemsetD2D16
#undef cuMemsetD2D32
MEMSET(cuMemsetD8, cuMemsetD2D8, unsigned char, 1)
MEMSET(cuMemsetD16, cuMemsetD2D16, unsigned short, 2)
MEMSET(cuMemsetD32, cuMemsetD2D32, unsigned, 4)
#define V2(name, type) \
    PTXSIM_API CUresult name##_v2(CUdeviceptr p, type v, size_t n) { PTXSIM_ENTER; return name(p, v, n); }
V2(cuMemsetD8, unsigned char)
V2(cuMemsetD16, unsigned short)
V2(cuMemsetD32, unsigned)
#define V2_2D(name, type) \
    PTXSIM_API CUresult name##_v2(CUdeviceptr p, size_t pitch, type v, size_t w, size_t h) { PTXSIM_ENTER; return name(p, pitch, v, w, h); }
V2_2D(cuMemsetD2D8, unsigned char)
V2_2D(cuMemsetD2D16, unsigned short)
V2_2D(cuMemsetD2D32, unsigned)

PTXSIM_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice dev) { BEGIN; NEED_DEVICE(dev); *pool = reinterpret_cast<CUmemoryPool>(&context); DO(OK); }
PTXSIM_API CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) { PTXSIM_ENTER; return cuDeviceGetDefaultMemPool(pool, dev); }
PTXSIM_API CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool) { BEGIN; NEED_DEVICE(dev); DO(OK); }
PTXSIM_API CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) { BEGIN; *pool = reinterpret_cast<CUmemoryPool>(&context); DO(OK); }
PTXSIM_API CUresult cuMemPoolDestroy(CUmemoryPool) { BEGIN; DO(OK); }
PTXSIM_API CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) { BEGIN; DO(OK); }
PTXSIM_API CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { BEGIN; DO(OK); }
PTXSIM_API CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute which, void* value) {
    BEGIN;
    if (which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) *static_cast<int*>(value) = 1;
    else *static_cast<cuuint64_t*>(value) = which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? 0 : allocated();
    DO(OK);
}
PTXSIM_API CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) { BEGIN; DO(OK); }

// streams and events

PTXSIM_API CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
    BEGIN; NEED(out, "a null pointer");
    *out = new CUstream_st{flags, std::max(-5, std::min(0, priority)), next_id++};
    streams.insert(*out);
    order(CREATED, *out, flags & 1);
    DO(OK);
}
PTXSIM_API CUresult cuStreamCreate(CUstream* out, unsigned flags) { PTXSIM_ENTER; return cuStreamCreateWithPriority(out, flags, 0); }
PTXSIM_API CUresult cuStreamDestroy(CUstream s) {
    BEGIN;
    if (!streams.erase(s)) DO(fail(INVALID_HANDLE, "%p is no stream that was created", static_cast<void*>(s)));
    DO(OK);  // not deleted: no other stream is to have its address, by which it is known
}
PTXSIM_API CUresult cuStreamSynchronize(CUstream s) { PTXSIM_ENTER; if (int code = sticky()) DO(code); NEED_STREAM(s); PERMIT(permit_wait(s)); order(STREAM_DONE, s); DO(sticky()); }
PTXSIM_API CUresult cuStreamQuery(CUstream s) {
    PTXSIM_ENTER; if (int code = sticky()) DO(code);
    NEED_STREAM(s);
    if (!here_.outermost) DO(OK);  // the runtime asks whether there is such a stream
    PERMIT(permit_wait(s));
    if (!reached(STREAM_DONE, s)) DO(NOT_READY);
    order(STREAM_DONE, s);
    DO(OK);
}
PTXSIM_API CUresult cuStreamGetPriority(CUstream s, int* p) { BEGIN; NEED_STREAM(s); *p = uintptr_t(s) <= 2 ? 0 : s->priority; DO(OK); }
PTXSIM_API CUresult cuStreamGetFlags(CUstream s, unsigned* f) { BEGIN; NEED_STREAM(s); *f = uintptr_t(s) <= 2 ? 0 : s->flags; DO(OK); }
PTXSIM_API CUresult cuStreamGetId(CUstream s, unsigned long long* id) { BEGIN; NEED_STREAM(s); *id = uintptr_t(s) <= 2 ? uintptr_t(s) : s->id; DO(OK); }
PTXSIM_API CUresult cuStreamGetCtx(CUstream s, CUcontext* c) { BEGIN; NEED_STREAM(s); *c = &context; DO(OK); }
PTXSIM_API CUresult cuStreamGetDevice(CUstream s, CUdevice* d) { BEGIN; NEED_STREAM(s); *d = 0; DO(OK); }
PTXSIM_API CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) { 
    BEGIN; NEED_STREAM(s);
    Capture* c = capturing(s);
    *status = !c ? CU_STREAM_CAPTURE_STATUS_NONE : c->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    DO(OK);
}
PTXSIM_API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
    BEGIN; NEED_STREAM(s); NEED_EVENT(e); PERMIT(permit_work());
    Capture *here = capturing(s), *there = capture_of(e->capture);
    if (there && uintptr_t(s) <= 1) DO(invalidate(there, CAPTURE_IMPLICIT, "the legacy default stream cannot be captured, and waits for an event that is"));
    NEED(there || !e->capture, "the event was recorded last in a stream while that was captured: it is a part of the graph");
    if (here && (flags & CU_EVENT_WAIT_EXTERNAL)) DO(fail(NOT_SUPPORTED, "waiting for an external event in a graph is not emulated"));
    if (there) {  // the stream is captured, too
        if (here && here != there) {
            here->valid = false;
            DO(invalidate(there, CAPTURE_MERGE, "the event belongs to another capture than the stream"));
        }
        if (!there->valid) DO(CAPTURE_INVALIDATED);
        auto& end = there->ends[uint64_t(s)];
        for (CUgraphNode_st* n : e->after)
            if (std::find(end.begin(), end.end(), n) == end.end()) end.push_back(n);
        DO(OK);
    }
    if (here && e->recorded) DO(invalidate(here, CAPTURE_ISOLATION, "a captured stream cannot wait for an event that was recorded outside of the capture"));
    auto work = [=] { order(WAITS, s, uint64_t(e)); return OK; };
    if (!here && !put_off(work, WAITS, e)) work();
    DO(OK);
}
PTXSIM_API CUresult cuStreamAttachMemAsync(CUstream s, CUdeviceptr, size_t, unsigned) { BEGIN; NEED_STREAM(s); DO(OK); }
PTXSIM_API CUresult cuStreamAddCallback(CUstream s, CUstreamCallback f, void* data, unsigned) {
    int code;
    {
        BEGIN; NEED_STREAM(s); PERMIT(permit_work());
        if (Capture* c = capturing(s)) DO(invalidate(c, CAPTURE_UNSUPPORTED, "callbacks are not permitted in a captured stream; cudaLaunchHostFunc is"));
        if (put_off([=] { int now = sticky(); order(STREAM_DONE, s); f(s, CUresult(now), data); return OK; })) DO(OK);
        code = sticky();
        order(STREAM_DONE, s);
    }
    f(s, CUresult(code), data);
    DO(OK);
}
PTXSIM_API CUresult cuLaunchHostFunc(CUstream s, CUhostFn f, void* data) {
    {
        BEGIN; NEED_STREAM(s);
        auto call = [=] { order(STREAM_DONE, s); f(data); return OK; };
        if (int code = recorded(HOST_NODE, call); code != NOW) DO(code);
        order(STREAM_DONE, s);
    }
    f(data);
    DO(OK);
}
PTXSIM_API CUresult cuEventCreate(CUevent* out, unsigned flags) {
    BEGIN; NEED(out, "a null pointer");
    *out = new CUevent_st{flags};
    events.insert(*out);
    DO(OK);
}
PTXSIM_API CUresult cuEventDestroy(CUevent e) { BEGIN; NEED_EVENT(e); events.erase(e); DO(OK); }  // as of streams
PTXSIM_API CUresult cuEventRecord(CUevent e, CUstream s) {
    BEGIN; NEED_EVENT(e); NEED_STREAM(s); PERMIT(permit_work());
    Capture* c = capturing(s);
    e->capture = c ? c->id : 0;
    if (c) {
        e->after = c->ends[uint64_t(s)];
        DO(OK);
    }
    e->recorded = true;
    auto work = [=] { if (events.count(e)) e->ns = order(RECORDED, s, uint64_t(e)); return OK; };
    if (!put_off(work, RECORDED, e)) work();
    DO(OK);
}
PTXSIM_API CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags) {
    BEGIN; NEED_STREAM(s);
    if (capturing(s) && (flags & CU_EVENT_RECORD_EXTERNAL)) DO(fail(NOT_SUPPORTED, "recording an external event in a graph is not emulated"));
    return cuEventRecord(e, s);
}
PTXSIM_API CUresult cuEventQuery(CUevent e) { PTXSIM_ENTER; if (int code = sticky()) DO(code); NEED_EVENT(e); PERMIT(permit_event(e)); if (!reached(EVENT_DONE, e)) DO(NOT_READY); order(EVENT_DONE, nullptr, uint64_t(e)); DO(OK); }
PTXSIM_API CUresult cuEventSynchronize(CUevent e) { PTXSIM_ENTER; if (int code = sticky()) DO(code); NEED_EVENT(e); PERMIT(permit_event(e)); order(EVENT_DONE, nullptr, uint64_t(e)); DO(sticky()); }
PTXSIM_API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
    BEGIN; NEED_EVENT(a); NEED_EVENT(b); NEED(ms, "a null pointer");
    for (CUevent e : {a, b})
        if (e->capture) DO(capture_of(e->capture) ? fail(CAPTURED_EVENT, "an event that was recorded in a captured stream") : permit_event(e));
    if (!a->recorded || !b->recorded) DO(fail(INVALID_HANDLE, "an event that was not recorded"));
    if ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) DO(fail(INVALID_HANDLE, "an event that was created without timing"));
    if (!reached(EVENT_DONE, a) || !reached(EVENT_DONE, b)) DO(NOT_READY);
    note(ONCE, "emulation measures no time of a device: this is of a made-up clock, which grows with what is executed");
    *ms = float(double(int64_t(b->ns - a->ns)) * 1e-6);
    order(EVENT_DONE, nullptr, uint64_t(b));
    DO(OK);
}
#undef cuEventElapsedTime
PTXSIM_API CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) { PTXSIM_ENTER; return cuEventElapsedTime_v2(ms, a, b); }

// launches

static CUresult launch_with(Kernel* k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, size_t shared,
                            CUstream s, void** arguments, void** extra, bool cooperative, const CUlaunchAttribute* list, unsigned count) {
    NEED(k, "a null kernel"); NEED_STREAM(s);
    Launch what{{gx, gy, gz}, {bx, by, bz}, {0, 0, 0}, shared, cooperative, false};
    if (int code = set_attributes(&what, k, list, count)) DO(code);
    DO(launch(k, what, arguments, extra));
}
PTXSIM_API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                   unsigned shared, CUstream s, void** arguments, void** extra) {
    BEGIN; DO(driver_code(launch_with(kernel_of(f), gx, gy, gz, bx, by, bz, shared, s, arguments, extra, false, nullptr, 0)));
}
PTXSIM_API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                              unsigned bz, unsigned shared, CUstream s, void** arguments) {
    BEGIN; DO(driver_code(launch_with(kernel_of(f), gx, gy, gz, bx, by, bz, shared, s, arguments, nullptr, true, nullptr, 0)));
}
PTXSIM_API CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** arguments, void** extra) {
    BEGIN; NEED(c, "a null pointer");
    DO(driver_code(launch_with(kernel_of(f), c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                               c->sharedMemBytes, c->hStream, arguments, extra, false, c->attrs, c->numAttrs)));
}

PTXSIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction f, int threads, size_t shared) {
    BEGIN; NEED(f, "a null kernel"); DO(occupancy(kernel_of(f), threads, shared, blocks));
}
PTXSIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction f, int threads, size_t shared, unsigned) {
    PTXSIM_ENTER; return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
PTXSIM_API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction f, CUoccupancyB2DSize of, size_t shared, int limit) {
    BEGIN; NEED(f, "a null kernel");
    Kernel* k = kernel_of(f);
    int best = 0, most = int(k->max_threads);
    if (limit > 0) most = std::min(most, limit);
    for (int threads = most / 32 * 32; threads >= 32; threads -= 32) {
        int each = 0;
        if (int code = occupancy(k, threads, of ? of(threads) : shared, &each)) DO(code);
        if (each * threads > best) best = each * threads, *block = threads, *grid = each * gpu().sms;
    }
    DO(OK);
}
PTXSIM_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction f, CUoccupancyB2DSize of, size_t shared, int limit, unsigned) {
    PTXSIM_ENTER; return cuOccupancyMaxPotentialBlockSize(grid, block, f, of, shared, limit);
}
PTXSIM_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction f, int blocks, int) {
    BEGIN; NEED(f && blocks > 0, "a null kernel, or no blocks");
    long each = gpu().shared_per_sm / blocks / 128 * 128 - 1024 - long(kernel_of(f)->static_shared);
    *bytes = size_t(std::max(0l, std::min(each, long(gpu().shared_optin) - long(kernel_of(f)->static_shared))));
    DO(OK);
}
PTXSIM_API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction f, const CUlaunchConfig* c) {
    BEGIN; NEED(f && c, "a null pointer");
    const Kernel* k = kernel_of(f);
    unsigned cluster[3] = {std::max(k->cluster[0], 1u), std::max(k->cluster[1], 1u), std::max(k->cluster[2], 1u)};
    for (unsigned i = 0; i < c->numAttrs; ++i) {
        if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
        const auto& dim = c->attrs[i].value.clusterDim;
        cluster[0] = dim.x, cluster[1] = dim.y, cluster[2] = dim.z;
    }
    const unsigned grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
    for (int i = 0; i < 3; ++i) {
        if (cluster[i] && grid[i] % cluster[i] == 0) continue;
        DO(fail(912, "%u blocks in %c are no whole clusters of %u", grid[i], "xyz"[i], cluster[i]));
    }
    int each = 0, size = int(cluster[0] * cluster[1] * cluster[2]);
    int code = occupancy(kernel_of(f), int(c->blockDimX * c->blockDimY * c->blockDimZ), c->sharedMemBytes, &each);
    // A cluster lies within one GPC: of 132 SMs, clusters of more than two blocks fill 120 on an H100 and an H200.
    *clusters = each * (size > 2 ? gpu().sms * 10 / 11 : gpu().sms) / size;
    DO(code);
}
PTXSIM_API CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction f, const CUlaunchConfig*) {
    BEGIN; NEED(f, "a null kernel"); *size = kernel_of(f)->non_portable_cluster ? 16 : 8; DO(OK);
}

// graphs: their work is done in order, in the stream that they are launched in

static void visit(CUgraphNode_st* n, std::set<CUgraphNode_st*>& seen, CUgraphExec_st& out) {
    if (!seen.insert(n).second) return;
    for (CUgraphNode_st* before : n->after) visit(before, seen, out);
    out.steps.push_back({n, n->type, n->run});
}
static CUgraphExec_st in_order(CUgraph g) {
    CUgraphExec_st found{};
    std::set<CUgraphNode_st*> seen;
    for (auto& n : g->nodes) visit(n.get(), seen, found);
    return found;
}

#undef cuStreamBeginCapture
PTXSIM_API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) { BEGIN; NEED_STREAM(s); DO(begin_capture(s, mode)); }
PTXSIM_API CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) { PTXSIM_ENTER; return cuStreamBeginCapture_v2(s, mode); }
PTXSIM_API CUresult cuStreamEndCapture(CUstream s, CUgraph* out) {
    BEGIN; NEED_STREAM(s); NEED(out, "a null pointer");
    int code = end_capture(s, out);
    capture_failed |= code != OK;
    DO(code);
}
PTXSIM_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    BEGIN; NEED(mode, "a null pointer");
    *mode = CUstreamCaptureMode(exchange_capture_mode(*mode));
    DO(OK);
}
PTXSIM_API CUresult cuGraphCreate(CUgraph* out, unsigned) { BEGIN; NEED(out, "a null pointer"); *out = new CUgraph_st; DO(OK); }
PTXSIM_API CUresult cuGraphClone(CUgraph* out, CUgraph g) {
    BEGIN; NEED(out && g, "a null pointer");
    std::map<CUgraphNode_st*, CUgraphNode_st*> twin;
    *out = new CUgraph_st;
    for (auto& n : g->nodes) (*out)->nodes.emplace_back(twin[n.get()] = new CUgraphNode_st(*n));
    for (auto& n : (*out)->nodes)
        for (auto& before : n->after) before = twin[before];
    DO(OK);
}
PTXSIM_API CUresult cuGraphDestroy(CUgraph g) { BEGIN; delete g; DO(OK); }
PTXSIM_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph g, unsigned long long flags) {
    BEGIN;
    if (!g && capture_failed) DO(INVALID_VALUE);  // what failed was said
    NEED(out && g, "a null pointer");
    for (auto& n : g->nodes)
        if (n->type == ALLOCATE_NODE || n->type == FREE_NODE)
            NEED(g->ready.expired(), "a graph that allocates or frees memory has one executable graph at a time: destroy the first one");
    *out = new CUgraphExec_st(in_order(g));
    g->ready = (*out)->exists = std::make_shared<char>();
    (*out)->frees = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    DO(OK);
}
PTXSIM_API CUresult cuGraphExecDestroy(CUgraphExec e) { BEGIN; delete e; DO(OK); }
PTXSIM_API CUresult cuGraphUpload(CUgraphExec, CUstream s) { BEGIN; NEED_STREAM(s); DO(OK); }
PTXSIM_API CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
    BEGIN;
    if (!e && capture_failed) DO(INVALID_VALUE);
    NEED(e, "a null pointer"); NEED_STREAM(s);
    CUgraphExec_st copy = *e;
    int code = recorded(GRAPH_NODE, [copy] { return run(copy); });
    DO(code == NOW ? run(*e) : code);
}
PTXSIM_API CUresult cuGraphGetNodes(CUgraph g, CUgraphNode* nodes, size_t* count) {
    BEGIN; NEED(g && count, "a null pointer");
    if (nodes)
        for (size_t i = 0; i < std::min(*count, g->nodes.size()); ++i) nodes[i] = g->nodes[i].get();
    *count = nodes ? std::min(*count, g->nodes.size()) : g->nodes.size();
    DO(OK);
}
PTXSIM_API CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType* type) { BEGIN; NEED(n && type, "a null pointer"); *type = CUgraphNodeType(n->type); DO(OK); }
#undef cuGraphAddDependencies
PTXSIM_API CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*, size_t n) {
    BEGIN; NEED(g, "a null pointer");
    for (size_t i = 0; i < n; ++i) to[i]->after.push_back(from[i]);
    DO(OK);
}
#undef cuGraphExecUpdate
PTXSIM_API CUresult cuGraphExecUpdate_v2(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo* info) {
    BEGIN; NEED(e && g, "a null pointer");
    CUgraphExec_st found = in_order(g);
    bool alike = found.steps.size() == e->steps.size();
    for (size_t i = 0; alike && i < found.steps.size(); ++i) alike = found.steps[i].type == e->steps[i].type;
    if (info) info->result = alike ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (!alike) DO(fail(910, "the graph has other nodes than the one that was instantiated"));
    for (size_t i = 0; i < found.steps.size(); ++i) e->steps[i].run = found.steps[i].run;
    DO(OK);
}

#undef cuGraphAddKernelNode
PTXSIM_API CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count, const CUDA_KERNEL_NODE_PARAMS* p) {
    BEGIN; NEED(g && p, "a null pointer");
    Recording here(g);
    int code = driver_code(launch_with(kernel_of(p->func ? p->func : reinterpret_cast<CUfunction>(p->kern)), p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY,
                                       p->blockDimZ, p->sharedMemBytes, nullptr, p->kernelParams, p->extra, false, nullptr, 0));
    DO(code ? code : added_node(g, after, count, out));
}
PTXSIM_API CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
    BEGIN; NEED(g && p, "a null pointer");
    Recording here(g);
    int code = fill(pointer(p->dst), p->pitch, p->value, p->elementSize, p->width, p->height);
    DO(code ? code : added_node(g, after, count, out));
}
PTXSIM_API CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count) {
    BEGIN; NEED(g, "a null pointer");
    Recording here(g);
    recorded(EMPTY_NODE, nullptr);
    DO(added_node(g, after, count, out));
}
PTXSIM_API CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
    BEGIN; NEED(g && p, "a null pointer");
    Recording here(g);
    void* at = nullptr;
    int code = allocate_in_graph(p->bytesize, &at);
    p->dptr = CUdeviceptr(at);
    DO(code ? code : added_node(g, after, count, out));
}
PTXSIM_API CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count, CUdeviceptr at) {
    BEGIN; NEED(g, "a null pointer");
    Recording here(g);
    int code = release(pointer(at), false);
    DO(code ? code : added_node(g, after, count, out));
}
PTXSIM_API CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count, const CUDA_HOST_NODE_PARAMS* p) {
    BEGIN; NEED(g && p && p->fn, "a null pointer");
    Recording here(g);
    auto f = p->fn;
    auto* data = p->userData;
    recorded(HOST_NODE, [=] { order(ALL_DONE); f(data); return OK; });
    DO(added_node(g, after, count, out));
}
PTXSIM_API CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph g, const CUgraphNode* after, size_t count, CUgraph child) {
    BEGIN; NEED(g && child, "a null pointer");
    CUgraphExec_st copy = in_order(child);
    Recording here(g);
    recorded(GRAPH_NODE, [copy] { return run(copy); });
    DO(added_node(g, after, count, out));
}

// Tensor maps. The 128 bytes are this emulator's own: "ptxsim tensormap", u64 number, u64 address, u8 type, rank, swizzle,
// L2 promotion, u8 box[5] - 1, 3 bytes of zeros, u32 dim[5] - 1, u64 stride[4] in bytes; the rest is zeros. Innermost first.

static int bytes_of(CUtensorMapDataType t) {
    switch (t) {
        case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
        case CU_TENSOR_MAP_DATA_TYPE_UINT16: case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
        case CU_TENSOR_MAP_DATA_TYPE_UINT32: case CU_TENSOR_MAP_DATA_TYPE_INT32: case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ: case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return 4;
        case CU_TENSOR_MAP_DATA_TYPE_UINT64: case CU_TENSOR_MAP_DATA_TYPE_INT64: case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
        default: return 0;
    }
}
struct TensorMapBytes {
    char magic[16];
    uint64_t number, address;
    uint8_t type, rank, swizzle, promotion, box[5], zeros[3];
    uint32_t dim[5];
    uint64_t stride[4];
    char rest[32];
};
static_assert(sizeof(TensorMapBytes) == sizeof(CUtensorMap), "as large as the driver's");
static uint64_t next_map = 0;

PTXSIM_API CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dim,
                                           const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* element_strides,
                                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                           CUtensorMapFloatOOBfill fill_with) {
    BEGIN; NEED(out && address && dim && box && element_strides, "a null pointer");
    // The header aligns a CUtensorMap to 64 bytes; the driver also fills one that is not, such as cuda.core's on the heap.
    NEED(rank >= 1 && rank <= 5, "%u dimensions; allowed: 1 to 5", rank);
    NEED(rank == 1 || strides, "no strides");
    int item = bytes_of(type);
    if (!item) DO(fail(NOT_SUPPORTED, "elements of type %d are not emulated", int(type)));
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) DO(fail(NOT_SUPPORTED, "an interleaved layout is not emulated"));
    if (fill_with != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) DO(fail(NOT_SUPPORTED, "filling with NaN outside the tensor is not emulated"));
    static const int SWIZZLES[] = {0, 32, 64, 128};
    if (int(swizzle) < 0 || int(swizzle) > 3) DO(fail(NOT_SUPPORTED, "swizzle %d is not emulated", int(swizzle)));
    NEED(uintptr_t(address) % 16 == 0, "the address %p is not aligned to 16 bytes", address);
    TensorMapBytes m{};
    memcpy(m.magic, "ptxsim tensormap", 16);
    m.address = uint64_t(address), m.type = uint8_t(type), m.rank = uint8_t(rank), m.swizzle = uint8_t(SWIZZLES[swizzle] / 16);
    m.promotion = uint8_t(promotion);
    for (unsigned i = 0; i < rank; ++i) {
        NEED(dim[i] >= 1 && dim[i] <= (1ull << 32), "dimension %u has %llu elements; allowed: 1 to 2^32", i, (unsigned long long)dim[i]);
        NEED(box[i] >= 1 && box[i] <= 256, "the box has %u elements along dimension %u; allowed: 1 to 256", box[i], i);
        NEED(element_strides[i] >= 1 && element_strides[i] <= 8, "an element stride of %u; allowed: 1 to 8", element_strides[i]);
        if (element_strides[i] != 1) DO(fail(NOT_SUPPORTED, "an element stride of %u is not emulated, only 1", element_strides[i]));
        m.dim[i] = uint32_t(dim[i] - 1), m.box[i] = uint8_t(box[i] - 1);
        if (i + 1 == rank) break;
        NEED(strides[i] % 16 == 0 && strides[i] < (1ull << 40), "a stride of %llu bytes; allowed: multiples of 16 below 2^40", (unsigned long long)strides[i]);
        m.stride[i] = strides[i];
    }
    unsigned inner = box[0] * unsigned(item);
    NEED(inner % 16 == 0, "a box of %u bytes along the innermost dimension; allowed: multiples of 16", inner);
    NEED(!swizzle || inner <= unsigned(SWIZZLES[swizzle]), "a box of %u bytes along the innermost dimension is more than its swizzle of %d", inner, SWIZZLES[swizzle]);
    m.number = next_map++;
    memcpy(out, &m, sizeof m);
    Buffer b;
    b.raw(&m, sizeof m);
    new_tensor_map(b);
    DO(OK);
}
PTXSIM_API CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
    BEGIN; NEED(map && address, "a null pointer");
    NEED(uintptr_t(address) % 16 == 0, "the address %p is not aligned to 16 bytes", address);
    TensorMapBytes m;
    memcpy(&m, map, sizeof m);
    NEED(memcmp(m.magic, "ptxsim tensormap", 16) == 0, "%p holds no tensor map", static_cast<void*>(map));
    m.address = uint64_t(address), m.number = next_map++;
    memcpy(map, &m, sizeof m);
    Buffer b;
    b.raw(&m, sizeof m);
    new_tensor_map(b);
    DO(OK);
}

PTXSIM_API CUresult cuGetExportTable(const void** table, const CUuuid*) {  // of interfaces that are not documented
    *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}
PTXSIM_API CUresult cuProfilerStart(void) { BEGIN; order(PROFILES, nullptr, 1); DO(OK); }
PTXSIM_API CUresult cuProfilerStop(void) { BEGIN; order(PROFILES, nullptr, 0); DO(OK); }

PTXSIM_API CUresult cuGetProcAddress(const char* name, void** out, int, cuuint64_t, CUdriverProcAddressQueryResult* status) {
    *out = entry_point(name);
    if (status) *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
#undef cuGetProcAddress
PTXSIM_API CUresult cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(name, out, version, flags, nullptr);
}
}
