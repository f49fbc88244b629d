// The runtime API, libcudart.so, over core.hpp and the driver API of driver.cpp.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runtime.hpp"

using namespace ptxsim;

namespace {
thread_local cudaError_t last = cudaSuccess;

struct Stub { Module* module; const char* name; Kernel* kernel; };
struct Symbol { Module* module; const char* name; void** managed; };
std::map<const void*, Stub> stubs;      // host functions that stand for kernels
std::map<const void*, Symbol> symbols;  // host variables that stand for device variables
struct Configuration { dim3 grid, block; size_t shared; cudaStream_t stream; };
thread_local std::vector<Configuration> configurations;

int kernel_at(const void* f, Kernel** out) {  // a stub of the program, or a handle
    auto found = stubs.find(f);
    if (found == stubs.end()) {
        if (f == nullptr) return fail(INVALID_DEVICE_FUNCTION, "a null kernel");
        for (auto& [host, stub] : stubs)
            if (stub.kernel == f) return kernel_at(host, out);
        *out = static_cast<Kernel*>(const_cast<void*>(f));  // of a library: its handle is its address
        if ((*out)->module == nullptr) return fail(INVALID_DEVICE_FUNCTION, "%p is no kernel", f);
        return OK;
    }
    Stub& s = found->second;
    if (s.kernel == nullptr || s.kernel->max_threads == 0) {
        int code = get_kernel(s.module, s.name, &s.kernel);
        if (code == NOT_FOUND) code = INVALID_DEVICE_FUNCTION;
        if (code) return code;
        s.kernel->host = f;
    }
    *out = s.kernel;
    return OK;
}

int variable_at(const void* symbol, Variable** out) {
    auto found = symbols.find(symbol);
    if (found == symbols.end()) return fail(INVALID_SYMBOL, "%p is no __device__ or __constant__ variable", symbol);
    int code = get_variable(found->second.module, found->second.name, out);
    return code == NOT_FOUND ? fail(INVALID_SYMBOL, "no variable %s in the program's PTX (is it used by a kernel?)", found->second.name) : code;
}

int of_symbol(const void* symbol, size_t offset, size_t count, void** at) {
    Variable* v = nullptr;
    if (int code = variable_at(symbol, &v)) return code;
    if (offset + count > v->size)
        return fail(INVALID_VALUE, "%zu bytes at offset %zu of %s, which has %lu", count, offset, v->name.c_str(), (unsigned long)v->size);
    *at = reinterpret_cast<void*>(v->address + offset);
    return OK;
}
Module* module_of(void** handle) { return reinterpret_cast<Module*>(*handle); }
CUfunction function(Kernel* k) { return reinterpret_cast<CUfunction>(k); }
}  // namespace

cudaError_t done(int code) {
    if (code != OK && code != NOT_READY) last = cudaError_t(code);
    return cudaError_t(code);
}

#define FORWARD(call) { BEGIN; return done(call); }
#define NOTHING(...) { BEGIN; __VA_ARGS__; return done(OK); }

extern "C" {

// what nvcc emits

PTXSIM_API void** __cudaRegisterFatBinary(void* fatbin) {
    PTXSIM_ENTER;
    return reinterpret_cast<void**>(new Module*(new_module(fatbin)));
}
PTXSIM_API void __cudaRegisterFatBinaryEnd(void**) {}
PTXSIM_API void __cudaUnregisterFatBinary(void**) {}
PTXSIM_API void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
    PTXSIM_ENTER;
    stubs[host] = Stub{module_of(handle), name, nullptr};
}
PTXSIM_API void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, size_t, int, int) {
    PTXSIM_ENTER;
    symbols[host] = Symbol{module_of(handle), name, nullptr};
}
PTXSIM_API void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int, size_t, int, int) {
    PTXSIM_ENTER;
    symbols[host] = Symbol{module_of(handle), name, host};
    symbols[*host] = Symbol{module_of(handle), name, host};
}
PTXSIM_API char __cudaInitModule(void** handle) {  // before the host uses a managed variable
    PTXSIM_ENTER;
    if (ready() != OK) return 0;
    std::vector<std::pair<void**, Symbol>> managed;
    for (auto& [host, s] : symbols)
        if (s.managed && s.module == module_of(handle)) managed.push_back({s.managed, s});
    for (auto& [host, s] : managed) {
        Variable* v = nullptr;
        if (get_variable(s.module, s.name, &v) != OK) continue;
        *host = reinterpret_cast<void*>(v->address);
        symbols[*host] = s;
    }
    return 1;
}
PTXSIM_API void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) {
    missing("texture references", __builtin_return_address(0));
}
PTXSIM_API void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) {
    missing("surface references", __builtin_return_address(0));
}
PTXSIM_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    configurations.push_back({grid, block, shared, stream});
    return 0;
}
PTXSIM_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    if (configurations.empty()) return cudaErrorMissingConfiguration;
    Configuration c = configurations.back();
    configurations.pop_back();
    *grid = c.grid, *block = c.block, *shared = c.shared, *static_cast<cudaStream_t*>(stream) = c.stream;
    return cudaSuccess;
}

// errors

RT cudaGetLastError(void) { cudaError_t e = last; last = cudaSuccess; return e; }
RT cudaPeekAtLastError(void) { return last; }
PTXSIM_API const char* cudaGetErrorName(cudaError_t e) { const char* t = runtime_error_name(int(e)); return t ? t : "unrecognized error code"; }
PTXSIM_API const char* cudaGetErrorString(cudaError_t e) { return error_text(int(e)); }

// the device

RT cudaGetDeviceCount(int* n) { *n = 0; BEGIN; *n = 1; return done(OK); }
RT cudaGetDevice(int* d) NOTHING(*d = 0)
RT cudaSetDevice(int d) { BEGIN; if (d) return done(fail(INVALID_DEVICE, "there is one device, 0, not %d", d)); return done(OK); }
RT cudaInitDevice(int d, unsigned, unsigned) { BEGIN; return cudaSetDevice(d); }
RT cudaSetValidDevices(int*, int) NOTHING()
RT cudaChooseDevice(int* d, const cudaDeviceProp*) NOTHING(*d = 0)
RT cudaSetDeviceFlags(unsigned) NOTHING()
RT cudaGetDeviceFlags(unsigned* f) NOTHING(*f = 0)
RT cudaDriverGetVersion(int* v) { *v = CUDART_VERSION; return cudaSuccess; }
RT cudaRuntimeGetVersion(int* v) { *v = CUDART_VERSION; return cudaSuccess; }
RT cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int d) FORWARD(cuDeviceGetAttribute(value, CUdevice_attribute(which), d))
RT cudaDeviceSynchronize(void) { PTXSIM_ENTER; return done(cuCtxSynchronize()); }
RT cudaDeviceReset(void) { PTXSIM_ENTER; ready(); reset(); last = cudaSuccess; return cudaSuccess; }
RT cudaDeviceSetLimit(cudaLimit limit, size_t value) FORWARD(cuCtxSetLimit(CUlimit(limit), value))
RT cudaDeviceGetLimit(size_t* value, cudaLimit limit) FORWARD(cuCtxGetLimit(value, CUlimit(limit)))
RT cudaDeviceSetCacheConfig(cudaFuncCache) NOTHING()
RT cudaDeviceGetCacheConfig(cudaFuncCache* c) NOTHING(*c = cudaFuncCachePreferNone)
RT cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) NOTHING()
RT cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* c) NOTHING(*c = cudaSharedMemBankSizeFourByte)
RT cudaDeviceCanAccessPeer(int* can, int, int) NOTHING(*can = 0)
RT cudaDeviceGetPCIBusId(char* id, int size, int d) FORWARD(cuDeviceGetPCIBusId(id, size, d))
RT cudaDeviceGetByPCIBusId(int* d, const char*) NOTHING(*d = 0)
RT cudaDeviceGetStreamPriorityRange(int* least, int* greatest) FORWARD(cuCtxGetStreamPriorityRange(least, greatest))
RT cudaDeviceGetTexture1DLinearMaxWidth(size_t* width, const cudaChannelFormatDesc*, int) NOTHING(*width = 1 << 28)
RT cudaCtxResetPersistingL2Cache(void) NOTHING()
RT cudaProfilerStart(void) NOTHING(order(PROFILES, nullptr, 1))
RT cudaProfilerStop(void) NOTHING(order(PROFILES, nullptr, 0))
RT cudaGetDeviceProperties(cudaDeviceProp* p, int d) {
    BEGIN;
    if (d) return done(fail(INVALID_DEVICE, "there is one device, 0, not %d", d));
    auto get = [](int which) { int v = 0; attribute(which, &v); return v; };
    const Gpu& g = gpu();
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", g.name.c_str());
    memcpy(p->uuid.bytes, "ptxsim, emulated", 16);
    p->totalGlobalMem = g.memory, p->sharedMemPerBlock = 48 * 1024, p->regsPerBlock = 65536, p->warpSize = 32;
    p->memPitch = 2147483647, p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024, p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536, p->major = g.major, p->minor = g.minor, p->textureAlignment = 512, p->texturePitchAlignment = 32;
    p->multiProcessorCount = g.sms, p->canMapHostMemory = 1, p->surfaceAlignment = 512, p->concurrentKernels = 1, p->ECCEnabled = 1;
    p->asyncEngineCount = 3, p->unifiedAddressing = 1, p->memoryBusWidth = g.bus_bits, p->l2CacheSize = g.l2_bytes;
    p->maxThreadsPerMultiProcessor = g.threads_per_sm, p->streamPrioritiesSupported = 1, p->globalL1CacheSupported = 1;
    p->localL1CacheSupported = 1, p->sharedMemPerMultiprocessor = size_t(g.shared_per_sm), p->regsPerMultiprocessor = g.registers_per_sm;
    p->managedMemory = 1, p->concurrentManagedAccess = 1, p->computePreemptionSupported = 1, p->cooperativeLaunch = 1;
    p->sharedMemPerBlockOptin = size_t(g.shared_optin), p->maxBlocksPerMultiProcessor = g.blocks_per_sm, p->reservedSharedMemPerBlock = 1024;
    p->memoryPoolsSupported = 1, p->persistingL2CacheMaxSize = g.persisting_l2, p->accessPolicyMaxWindowSize = g.window_bytes;
#if CUDART_VERSION >= 12000
    p->clusterLaunch = get(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
#endif
#if CUDART_VERSION < 13000
    p->clockRate = g.clock_khz, p->memoryClockRate = g.memory_clock_khz;
#endif
    (void)get;
    return done(OK);
}

// memory

RT cudaMalloc(void** p, size_t n) { BEGIN; NEED(p, "a null pointer"); return done(allocate(n, DEVICE, p)); }
RT cudaMallocManaged(void** p, size_t n, unsigned) { BEGIN; NEED(p && n, "%s", p ? "0 bytes" : "a null pointer"); return done(allocate(n, MANAGED, p)); }
RT cudaMallocHost(void** p, size_t n) { BEGIN; NEED(p, "a null pointer"); return done(allocate(n, HOST, p)); }
RT cudaHostAlloc(void** p, size_t n, unsigned flags) { BEGIN; NEED(p, "a null pointer"); return done(allocate(n, HOST, p, flags)); }
RT cudaFree(void* p) { BEGIN; return done(release(p, false)); }
RT cudaFreeHost(void* p) { BEGIN; return done(release(p, true)); }
RT cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
    BEGIN; NEED(p && pitch, "a null pointer");
    *pitch = (width + 511) / 512 * 512;
    return done(allocate(*pitch * height, DEVICE, p));
}
RT cudaMalloc3D(cudaPitchedPtr* p, cudaExtent e) {
    BEGIN; NEED(p, "a null pointer");
    p->pitch = (e.width + 511) / 512 * 512, p->xsize = e.width, p->ysize = e.height;
    return done(allocate(p->pitch * e.height * e.depth, DEVICE, &p->ptr));
}
RT cudaMallocAsync(void** p, size_t n, cudaStream_t s) FORWARD(cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(p), n, s))
RT cudaMallocFromPoolAsync(void** p, size_t n, cudaMemPool_t, cudaStream_t s) { BEGIN; return cudaMallocAsync(p, n, s); }
RT cudaFreeAsync(void* p, cudaStream_t s) { BEGIN; return done(cuMemFreeAsync(CUdeviceptr(p), s)); }
RT cudaMemGetInfo(size_t* left, size_t* total) FORWARD(cuMemGetInfo(left, total))
RT cudaHostGetDevicePointer(void** out, void* p, unsigned f) FORWARD(cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(out), p, f))
RT cudaHostGetFlags(unsigned* f, void* p) FORWARD(cuMemHostGetFlags(f, p))
RT cudaHostRegister(void* p, size_t n, unsigned f) FORWARD(cuMemHostRegister(p, n, f))
RT cudaHostUnregister(void* p) FORWARD(cuMemHostUnregister(p))
RT cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
    BEGIN; NEED(a, "a null pointer");
    const Block* b = is_device_range(p) ? find(p) : nullptr;
    memset(a, 0, sizeof *a);
    a->type = !b ? cudaMemoryTypeUnregistered : b->kind == HOST ? cudaMemoryTypeHost : host_may_touch(b->kind) ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
    a->device = b ? 0 : -2;
    a->devicePointer = b ? const_cast<void*>(p) : nullptr;
    a->hostPointer = !b || host_may_touch(b->kind) ? const_cast<void*>(p) : nullptr;
    return done(OK);
}
RT cudaMemcpy(void* to, const void* from, size_t n, cudaMemcpyKind kind) { PTXSIM_ENTER; if (int c = sticky()) return done(c); return done(copy(to, from, n, kind)); }
RT cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t s) { PTXSIM_ENTER; if (int c = cuStreamQuery(s)) return done(c); return done(copy(to, from, n, kind)); }
RT cudaMemcpyPeer(void* to, int, const void* from, int, size_t n) { BEGIN; return done(copy(to, from, n, WITHIN_DEVICE)); }
RT cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t n, cudaStream_t s) { BEGIN; if (int c = cuStreamQuery(s)) return done(c); return done(copy(to, from, n, WITHIN_DEVICE)); }
RT cudaMemcpy2D(void* to, size_t tp, const void* from, size_t fp, size_t w, size_t h, cudaMemcpyKind kind) { BEGIN; return done(copy_2d(to, tp, from, fp, w, h, kind)); }
RT cudaMemcpy2DAsync(void* to, size_t tp, const void* from, size_t fp, size_t w, size_t h, cudaMemcpyKind kind, cudaStream_t s) {
    BEGIN; if (int c = cuStreamQuery(s)) return done(c); return done(copy_2d(to, tp, from, fp, w, h, kind));
}
RT cudaMemset(void* p, int v, size_t n) { BEGIN; return done(fill(p, n, uint32_t(v), 1, n, 1)); }
RT cudaMemsetAsync(void* p, int v, size_t n, cudaStream_t s) { BEGIN; if (int e = cuStreamQuery(s)) return done(e); return done(fill(p, n, uint32_t(v), 1, n, 1)); }
RT cudaMemset2D(void* p, size_t pitch, int v, size_t w, size_t h) { BEGIN; return done(fill(p, pitch, uint32_t(v), 1, w, h)); }
RT cudaMemset2DAsync(void* p, size_t pitch, int v, size_t w, size_t h, cudaStream_t s) { BEGIN; if (int e = cuStreamQuery(s)) return done(e); return done(fill(p, pitch, uint32_t(v), 1, w, h)); }
RT cudaMemset3D(cudaPitchedPtr p, int v, cudaExtent e) {
    BEGIN;
    for (size_t z = 0; z < e.depth; ++z)
        if (int code = fill(static_cast<char*>(p.ptr) + z * p.ysize * p.pitch, p.pitch, uint32_t(v), 1, e.width, e.height)) return done(code);
    return done(OK);
}
RT cudaMemset3DAsync(cudaPitchedPtr p, int v, cudaExtent e, cudaStream_t s) { BEGIN; if (int c = cuStreamQuery(s)) return done(c); return cudaMemset3D(p, v, e); }
RT cudaMemcpyToSymbol(const void* symbol, const void* from, size_t n, size_t offset, cudaMemcpyKind kind) {
    BEGIN;
    void* at = nullptr;
    if (int code = of_symbol(symbol, offset, n, &at)) return done(code);
    return done(copy(at, from, n, kind));
}
RT cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t n, size_t offset, cudaMemcpyKind kind, cudaStream_t s) {
    BEGIN; if (int e = cuStreamQuery(s)) return done(e); return cudaMemcpyToSymbol(symbol, from, n, offset, kind);
}
RT cudaMemcpyFromSymbol(void* to, const void* symbol, size_t n, size_t offset, cudaMemcpyKind kind) {
    PTXSIM_ENTER;
    if (int c = sticky()) return done(c);
    void* at = nullptr;
    if (int code = of_symbol(symbol, offset, n, &at)) return done(code);
    return done(copy(to, at, n, kind));
}
RT cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t n, size_t offset, cudaMemcpyKind kind, cudaStream_t s) {
    BEGIN; if (int e = cuStreamQuery(s)) return done(e); return cudaMemcpyFromSymbol(to, symbol, n, offset, kind);
}
RT cudaGetSymbolAddress(void** p, const void* symbol) { BEGIN; return done(of_symbol(symbol, 0, 0, p)); }
RT cudaGetSymbolSize(size_t* n, const void* symbol) {
    BEGIN;
    Variable* v = nullptr;
    int code = variable_at(symbol, &v);
    if (!code) *n = v->size;
    return done(code);
}
#if CUDART_VERSION >= 13000
RT cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) NOTHING()
RT cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) NOTHING()
#else
RT cudaMemPrefetchAsync(const void*, size_t, int, cudaStream_t) NOTHING()
RT cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, int) NOTHING()
#endif
RT cudaDeviceGetDefaultMemPool(cudaMemPool_t* p, int d) FORWARD(cuDeviceGetDefaultMemPool(p, d))
RT cudaDeviceGetMemPool(cudaMemPool_t* p, int d) FORWARD(cuDeviceGetMemPool(p, d))
RT cudaDeviceSetMemPool(int d, cudaMemPool_t p) FORWARD(cuDeviceSetMemPool(d, p))
RT cudaMemPoolCreate(cudaMemPool_t* p, const cudaMemPoolProps*) FORWARD(cuMemPoolCreate(p, nullptr))
RT cudaMemPoolDestroy(cudaMemPool_t) NOTHING()
RT cudaMemPoolTrimTo(cudaMemPool_t, size_t) NOTHING()
RT cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) NOTHING()
RT cudaMemPoolGetAttribute(cudaMemPool_t p, cudaMemPoolAttr a, void* v) FORWARD(cuMemPoolGetAttribute(p, CUmemPool_attribute(a), v))

// streams and events

RT cudaStreamCreate(cudaStream_t* s) FORWARD(cuStreamCreate(s, 0))
RT cudaStreamCreateWithFlags(cudaStream_t* s, unsigned f) FORWARD(cuStreamCreate(s, f))
RT cudaStreamCreateWithPriority(cudaStream_t* s, unsigned f, int p) FORWARD(cuStreamCreateWithPriority(s, f, p))
RT cudaStreamDestroy(cudaStream_t s) FORWARD(cuStreamDestroy(s))
RT cudaStreamSynchronize(cudaStream_t s) { PTXSIM_ENTER; return done(cuStreamSynchronize(s)); }
RT cudaStreamQuery(cudaStream_t s) {
    PTXSIM_ENTER;
    int code = cuStreamQuery(s);
    if (!code) code = permit_wait(s);
    if (!code && !reached(STREAM_DONE, s)) code = NOT_READY;
    if (!code) order(STREAM_DONE, s);
    return done(code);
}
RT cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f) FORWARD(cuStreamWaitEvent(s, e, f))
RT cudaStreamGetPriority(cudaStream_t s, int* p) FORWARD(cuStreamGetPriority(s, p))
RT cudaStreamGetFlags(cudaStream_t s, unsigned* f) FORWARD(cuStreamGetFlags(s, f))
RT cudaStreamGetId(cudaStream_t s, unsigned long long* id) FORWARD(cuStreamGetId(s, id))
RT cudaStreamGetDevice(cudaStream_t s, int* d) FORWARD(cuStreamGetDevice(s, d))
RT cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* c) FORWARD(cuStreamIsCapturing(s, reinterpret_cast<CUstreamCaptureStatus*>(c)))
RT cudaStreamAttachMemAsync(cudaStream_t s, void* p, size_t n, unsigned f) FORWARD(cuStreamAttachMemAsync(s, CUdeviceptr(p), n, f))
RT cudaStreamSetAttribute(cudaStream_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue*) NOTHING()
RT cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t f, void* data, unsigned flags) {
    return done(cuStreamAddCallback(s, reinterpret_cast<CUstreamCallback>(f), data, flags));
}
RT cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void* data) { return done(cuLaunchHostFunc(s, f, data)); }
RT cudaEventCreate(cudaEvent_t* e) FORWARD(cuEventCreate(e, 0))
RT cudaEventCreateWithFlags(cudaEvent_t* e, unsigned f) FORWARD(cuEventCreate(e, f))
RT cudaEventDestroy(cudaEvent_t e) FORWARD(cuEventDestroy(e))
RT cudaEventRecord(cudaEvent_t e, cudaStream_t s) FORWARD(cuEventRecord(e, s))
RT cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f) FORWARD(cuEventRecordWithFlags(e, s, f))
RT cudaEventQuery(cudaEvent_t e) { PTXSIM_ENTER; return done(cuEventQuery(e)); }
RT cudaEventSynchronize(cudaEvent_t e) { PTXSIM_ENTER; return done(cuEventSynchronize(e)); }
RT cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) FORWARD(cuEventElapsedTime(ms, a, b))

// launches

static cudaError_t launch_at(const void* f, dim3 g, dim3 b, void** args, size_t shared, cudaStream_t s, bool cooperative,
                             const cudaLaunchAttribute* list, unsigned count) {
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    if (int code = cuStreamGetFlags(s, std::vector<unsigned>(1).data())) return done(code);
    Launch what{{g.x, g.y, g.z}, {b.x, b.y, b.z}, {0, 0, 0}, shared, cooperative, false};
    if (int code = set_attributes(&what, k, list, count)) return done(code);
    return done(launch(k, what, args, nullptr));
}
RT cudaLaunchKernel(const void* f, dim3 g, dim3 b, void** args, size_t shared, cudaStream_t s) { BEGIN; return launch_at(f, g, b, args, shared, s, false, nullptr, 0); }
RT cudaLaunchCooperativeKernel(const void* f, dim3 g, dim3 b, void** args, size_t shared, cudaStream_t s) { BEGIN; return launch_at(f, g, b, args, shared, s, true, nullptr, 0); }
RT cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** args) {
    BEGIN; NEED(c, "a null pointer");
    return launch_at(f, c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream, false, c->attrs, c->numAttrs);
}
RT __cudaGetKernel(cudaKernel_t* out, const void* f) {
    BEGIN;
    Kernel* k = nullptr;
    int code = kernel_at(f, &k);
    *out = reinterpret_cast<cudaKernel_t>(k);
    return done(code);
}
RT __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void** args, size_t shared, cudaStream_t s) {
    BEGIN;
    if (k == nullptr) return done(last != cudaSuccess ? int(last) : INVALID_DEVICE_FUNCTION);  // getting it failed, which was said
    return launch_at(k, g, b, args, shared, s, false, nullptr, 0);
}
RT cudaGetKernel(cudaKernel_t* out, const void* f) { PTXSIM_ENTER; return __cudaGetKernel(out, f); }
RT cudaGetFuncBySymbol(cudaFunction_t* out, const void* f) { PTXSIM_ENTER; return __cudaGetKernel(reinterpret_cast<cudaKernel_t*>(out), f); }
RT cudaFuncGetName(const char** name, const void* f) {
    BEGIN;
    Kernel* k = nullptr;
    int code = kernel_at(f, &k);
    if (!code) *name = k->name.c_str();
    return done(code);
}
RT cudaFuncGetParamInfo(const void* f, size_t i, size_t* offset, size_t* size) {
    BEGIN;
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    return done(cuFuncGetParamInfo(function(k), i, offset, size));
}
RT cudaFuncGetAttributes(cudaFuncAttributes* a, const void* f) {
    BEGIN; NEED(a, "a null pointer");
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    auto get = [&](CUfunction_attribute which) { int v = 0; cuFuncGetAttribute(&v, which, function(k)); return v; };
    memset(a, 0, sizeof *a);
    a->sharedSizeBytes = k->static_shared, a->constSizeBytes = k->constant_bytes, a->localSizeBytes = k->local_bytes;
    a->maxThreadsPerBlock = int(k->max_threads), a->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
    a->ptxVersion = a->binaryVersion = gpu().major * 10 + gpu().minor;
    a->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    a->preferredShmemCarveout = k->carveout;
#if CUDART_VERSION >= 12000
    a->requiredClusterWidth = int(k->cluster[0]), a->requiredClusterHeight = int(k->cluster[1]), a->requiredClusterDepth = int(k->cluster[2]);
    a->nonPortableClusterSizeAllowed = k->non_portable_cluster;
#endif
    return done(OK);
}
RT cudaFuncSetAttribute(const void* f, cudaFuncAttribute which, int value) {
    BEGIN;
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    return done(cuFuncSetAttribute(function(k), CUfunction_attribute(which), value));  // the numbers are the same
}
RT cudaFuncSetCacheConfig(const void*, cudaFuncCache) NOTHING()
RT cudaFuncSetSharedMemConfig(const void*, cudaSharedMemConfig) NOTHING()
RT cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int threads, size_t shared) {
    BEGIN;
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    return done(occupancy(k, threads, shared, n));
}
RT cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f, int threads, size_t shared, unsigned) {
    BEGIN; return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, f, threads, shared);
}
RT cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* f, int blocks, int threads) {
    BEGIN;
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    return done(cuOccupancyAvailableDynamicSMemPerBlock(bytes, function(k), blocks, threads));
}
static CUlaunchConfig driver_config(const cudaLaunchConfig_t* c) {
    CUlaunchConfig d{};
    d.gridDimX = c->gridDim.x, d.gridDimY = c->gridDim.y, d.gridDimZ = c->gridDim.z;
    d.blockDimX = c->blockDim.x, d.blockDimY = c->blockDim.y, d.blockDimZ = c->blockDim.z;
    d.sharedMemBytes = unsigned(c->dynamicSmemBytes), d.hStream = c->stream, d.numAttrs = c->numAttrs;
    d.attrs = reinterpret_cast<CUlaunchAttribute*>(c->attrs);  // the same layout and numbers
    return d;
}
RT cudaOccupancyMaxActiveClusters(int* n, const void* f, const cudaLaunchConfig_t* c) {
    BEGIN; NEED(c, "a null pointer");
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    CUlaunchConfig d = driver_config(c);
    return done(cuOccupancyMaxActiveClusters(n, function(k), &d));
}
RT cudaOccupancyMaxPotentialClusterSize(int* n, const void* f, const cudaLaunchConfig_t* c) {
    BEGIN; NEED(c, "a null pointer");
    Kernel* k = nullptr;
    if (int code = kernel_at(f, &k)) return done(code);
    CUlaunchConfig d = driver_config(c);
    return done(cuOccupancyMaxPotentialClusterSize(n, function(k), &d));
}

// graphs

RT cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode m) FORWARD(cuStreamBeginCapture(s, CUstreamCaptureMode(m)))
RT cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) FORWARD(cuStreamEndCapture(s, g))
RT cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* m) FORWARD(cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(m)))
RT cudaGraphCreate(cudaGraph_t* g, unsigned f) FORWARD(cuGraphCreate(g, f))
RT cudaGraphClone(cudaGraph_t* out, cudaGraph_t g) FORWARD(cuGraphClone(out, g))
RT cudaGraphDestroy(cudaGraph_t g) FORWARD(cuGraphDestroy(g))
#if CUDART_VERSION >= 12000
RT cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long f) FORWARD(cuGraphInstantiateWithFlags(e, g, f))
#else
RT cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, cudaGraphNode_t*, char*, size_t) FORWARD(cuGraphInstantiateWithFlags(e, g, 0))
#endif
RT cudaGraphInstantiateWithFlags(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long f) FORWARD(cuGraphInstantiateWithFlags(e, g, f))
RT cudaGraphExecDestroy(cudaGraphExec_t e) FORWARD(cuGraphExecDestroy(e))
RT cudaGraphUpload(cudaGraphExec_t e, cudaStream_t s) FORWARD(cuGraphUpload(e, s))
RT cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) FORWARD(cuGraphLaunch(e, s))
RT cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t* nodes, size_t* n) FORWARD(cuGraphGetNodes(g, nodes, n))
RT cudaGraphNodeGetType(cudaGraphNode_t n, cudaGraphNodeType* t) FORWARD(cuGraphNodeGetType(n, reinterpret_cast<CUgraphNodeType*>(t)))
#if CUDART_VERSION >= 13000
RT cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t* from, const cudaGraphNode_t* to, const cudaGraphEdgeData*, size_t n) FORWARD(cuGraphAddDependencies(g, from, to, nullptr, n))
#endif
#if CUDART_VERSION >= 12000
RT cudaGraphExecUpdate(cudaGraphExec_t e, cudaGraph_t g, cudaGraphExecUpdateResultInfo* i) FORWARD(cuGraphExecUpdate(e, g, reinterpret_cast<CUgraphExecUpdateResultInfo*>(i)))
#endif
static cudaError_t launch_of(const cudaKernelNodeParams* p) {
    return launch_at(p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, nullptr, false, nullptr, 0);
}
#define NODE(work)                                                   \
    {                                                                \
        BEGIN; NEED(g, "a null graph");                              \
        Recording here(g);                                           \
        int code = work;                                             \
        return done(code ? code : added_node(g, after, count, out)); \
    }
RT cudaGraphAddKernelNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, const cudaKernelNodeParams* p) NODE(launch_of(p))
RT cudaGraphAddMemcpyNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, const cudaMemcpy3DParms* p) {
    BEGIN; NEED(g && p, "a null pointer");
    cudaMemcpy3DParms copy = *p;
    Recording here(g);
    recorded(COPY_NODE, [copy] { return int(cudaMemcpy3D(&copy)); });
    return done(added_node(g, after, count, out));
}
RT cudaGraphAddMemcpyNode1D(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, void* to, const void* from, size_t n, cudaMemcpyKind kind) NODE(copy(to, from, n, kind))
RT cudaGraphAddMemsetNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, const cudaMemsetParams* p) NODE(fill(p->dst, p->pitch, p->value, p->elementSize, p->width, p->height))
RT cudaGraphAddEmptyNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count) FORWARD(cuGraphAddEmptyNode(out, g, after, count))
RT cudaGraphAddMemAllocNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, cudaMemAllocNodeParams* p) FORWARD(cuGraphAddMemAllocNode(out, g, after, count, reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(p)))
RT cudaGraphAddMemFreeNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, void* at) FORWARD(cuGraphAddMemFreeNode(out, g, after, count, CUdeviceptr(at)))
RT cudaGraphAddHostNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, const cudaHostNodeParams* p) FORWARD(cuGraphAddHostNode(out, g, after, count, reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(p)))
RT cudaGraphAddChildGraphNode(cudaGraphNode_t* out, cudaGraph_t g, const cudaGraphNode_t* after, size_t count, cudaGraph_t child) FORWARD(cuGraphAddChildGraphNode(out, g, after, count, child))
RT cudaGraphExecKernelNodeSetParams(cudaGraphExec_t e, cudaGraphNode_t n, const cudaKernelNodeParams* p) {
    BEGIN; NEED(e && p, "a null pointer");
    CUgraph_st made;
    Recording here(&made);
    int code = launch_of(p);
    return done(code ? code : replaced_work(e, n, made));
}

// libraries

RT cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**, unsigned)
    FORWARD(cuModuleLoadData(reinterpret_cast<CUmodule*>(out), code))
RT cudaLibraryLoadFromFile(cudaLibrary_t* out, const char* name, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**, unsigned)
    FORWARD(cuModuleLoad(reinterpret_cast<CUmodule*>(out), name))
RT cudaLibraryUnload(cudaLibrary_t l) FORWARD(cuModuleUnload(reinterpret_cast<CUmodule>(l)))
RT cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t l, const char* name) FORWARD(cuModuleGetFunction(reinterpret_cast<CUfunction*>(out), reinterpret_cast<CUmodule>(l), name))
RT cudaLibraryGetKernelCount(unsigned* n, cudaLibrary_t l) FORWARD(cuModuleGetFunctionCount(n, reinterpret_cast<CUmodule>(l)))
RT cudaLibraryEnumerateKernels(cudaKernel_t* out, unsigned n, cudaLibrary_t l) FORWARD(cuModuleEnumerateFunctions(reinterpret_cast<CUfunction*>(out), n, reinterpret_cast<CUmodule>(l)))
RT cudaLibraryGetGlobal(void** p, size_t* n, cudaLibrary_t l, const char* name) FORWARD(cuModuleGetGlobal(reinterpret_cast<CUdeviceptr*>(p), n, reinterpret_cast<CUmodule>(l), name))
RT cudaLibraryGetManaged(void** p, size_t* n, cudaLibrary_t l, const char* name) FORWARD(cuModuleGetGlobal(reinterpret_cast<CUdeviceptr*>(p), n, reinterpret_cast<CUmodule>(l), name))
RT cudaKernelSetAttributeForDevice(cudaKernel_t k, cudaFuncAttribute which, int value, int) FORWARD(cuFuncSetAttribute(reinterpret_cast<CUfunction>(k), CUfunction_attribute(which), value))

static cudaError_t driver_entry(const char* name, void** f, cudaDriverEntryPointQueryResult* status) {
    PTXSIM_ENTER;
    NEED(name && f, "a null pointer");
    *f = entry_point(name);
    if (status) *status = *f ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return done(*f || status ? OK : fail(NOT_FOUND, "the driver has no %s", name));
}
RT cudaGetDriverEntryPoint(const char* name, void** f, unsigned long long, cudaDriverEntryPointQueryResult* status) { return driver_entry(name, f, status); }
RT cudaGetDriverEntryPointByVersion(const char* name, void** f, unsigned, unsigned long long, cudaDriverEntryPointQueryResult* status) { return driver_entry(name, f, status); }

// the host's clock: comes before libc's, and tells where it is read while a kernel may still run

PTXSIM_API int clock_gettime(clockid_t id, timespec* time) noexcept {
    static bool read_before = false;  // so that this is the end of a measurement
    if (read_before && under_way()) {
        PTXSIM_ENTER;
        note(ONCE, "the clock is read before the host has waited for the kernel that it launched last: a launch returns at once, "
                   "so that this is not its time; cudaDeviceSynchronize() belongs before it");
    }
    read_before = true;
    return int(syscall(SYS_clock_gettime, id, time));
}
}
