// CUDA arrays, textures and surfaces in the runtime API, over arrays.cpp.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>

#include "runtime.hpp"

using namespace ptxsim;

namespace {
uint32_t format_of(const cudaChannelFormatDesc& d) {  // as CUarray_format; 0: there is none
    int bits = d.x;
    for (int other : {d.y, d.z, d.w})
        if (other && other != bits) return 0;
    switch (d.f) {
        case cudaChannelFormatKindUnsigned: return bits == 8 ? CU_AD_FORMAT_UNSIGNED_INT8 : bits == 16 ? CU_AD_FORMAT_UNSIGNED_INT16 : bits == 32 ? CU_AD_FORMAT_UNSIGNED_INT32 : 0;
        case cudaChannelFormatKindSigned: return bits == 8 ? CU_AD_FORMAT_SIGNED_INT8 : bits == 16 ? CU_AD_FORMAT_SIGNED_INT16 : bits == 32 ? CU_AD_FORMAT_SIGNED_INT32 : 0;
        case cudaChannelFormatKindFloat: return bits == 16 ? CU_AD_FORMAT_HALF : bits == 32 ? CU_AD_FORMAT_FLOAT : 0;
        default: return 0;
    }
}
uint32_t channels_of(const cudaChannelFormatDesc& d) { return (d.x > 0) + (d.y > 0) + (d.z > 0) + (d.w > 0); }
cudaChannelFormatDesc description(const Array& a) {
    int bits = int(a.element / a.channels * 8);
    auto kind = a.format >= CU_AD_FORMAT_HALF ? cudaChannelFormatKindFloat
                : a.format >= CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned;
    return {bits, a.channels > 1 ? bits : 0, a.channels > 2 ? bits : 0, a.channels > 2 ? bits : 0, kind};
}
int require_format(const cudaChannelFormatDesc& d) {
    uint32_t channels = channels_of(d);
    if (format_of(d) && channels && channels != 3) return OK;
    return fail(INVALID_VALUE, "a channel format of (%d, %d, %d, %d) bits; emulated: 1, 2 or 4 channels of 8, 16 or 32 bits", d.x, d.y, d.z, d.w);
}

// Copies between memory and `count` bytes of an array, from a place on and into the rows after it.
int copy_flat(const void* array, size_t x, size_t y, void* to, const void* from, size_t count, int direction) {
    Array* a = nullptr;
    void* at = nullptr;
    if (int code = array_place(array, x, y, 0, 1, &at, &a)) return code;
    if (x + y * a->row() + count > a->row() * a->rows())
        return fail(INVALID_VALUE, "%zu bytes from byte %zu of row %zu; the array has %zu rows of %zu bytes", count, x, y, a->rows(), a->row());
    return to ? copy(to, at, count, direction) : copy(at, from, count, direction);
}
int copy_rows(const void* array, size_t x, size_t y, void* to, const void* from, size_t pitch, size_t width, size_t rows, int direction) {
    Array* a = nullptr;
    void* at = nullptr;
    if (int code = array_place(array, x, y, width, rows, &at, &a)) return code;
    if (rows == 1 && !pitch) pitch = width;  // one row has no pitch
    return to ? copy_2d(to, pitch, at, a->row(), width, rows, direction) : copy_2d(at, a->row(), from, pitch, width, rows, direction);
}
}  // namespace

#define IN_STREAM(s) BEGIN; if (int code_of_stream = cuStreamQuery(s)) return done(code_of_stream)

extern "C" {

PTXSIM_API cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) { return {x, y, z, w, kind}; }
RT cudaMalloc3DArray(cudaArray_t* out, const cudaChannelFormatDesc* d, cudaExtent e, unsigned flags) {
    BEGIN; NEED(out && d, "a null pointer");
    *out = nullptr;
    if (int code = require_format(*d)) return done(code);
    Array* made = nullptr;
    int code = new_array(Array{0, e.width, e.height, e.depth, format_of(*d), channels_of(*d), flags}, &made);
    *out = reinterpret_cast<cudaArray_t>(made);
    return done(code);
}
RT cudaMallocArray(cudaArray_t* out, const cudaChannelFormatDesc* d, size_t width, size_t height, unsigned flags) {
    BEGIN; return cudaMalloc3DArray(out, d, cudaExtent{width, height, 0}, flags);
}
RT cudaFreeArray(cudaArray_t a) { BEGIN; return done(free_array(a)); }
RT cudaArrayGetInfo(cudaChannelFormatDesc* d, cudaExtent* e, unsigned* flags, cudaArray_t handle) {
    BEGIN;
    Array* a = nullptr;
    if (int code = array_at(handle, &a)) return done(code);
    if (d) *d = description(*a);
    if (e) *e = {a->width, a->height, a->depth};
    if (flags) *flags = a->flags;
    return done(OK);
}
RT cudaGetChannelDesc(cudaChannelFormatDesc* d, cudaArray_const_t handle) { BEGIN; NEED(d, "a null pointer"); return cudaArrayGetInfo(d, nullptr, nullptr, cudaArray_t(handle)); }

RT cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t rows, cudaMemcpyKind kind) {
    BEGIN; return done(copy_rows(to, x, y, nullptr, from, pitch, width, rows, kind));
}
RT cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t rows, cudaMemcpyKind kind, cudaStream_t s) {
    IN_STREAM(s); return done(copy_rows(to, x, y, nullptr, from, pitch, width, rows, kind));
}
RT cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t rows, cudaMemcpyKind kind) {
    BEGIN; NEED(to, "a null pointer as the destination"); return done(copy_rows(from, x, y, to, nullptr, pitch, width, rows, kind));
}
RT cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t rows, cudaMemcpyKind kind, cudaStream_t s) {
    IN_STREAM(s); NEED(to, "a null pointer as the destination"); return done(copy_rows(from, x, y, to, nullptr, pitch, width, rows, kind));
}
RT cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t count, cudaMemcpyKind kind) {
    BEGIN; return done(copy_flat(to, x, y, nullptr, from, count, kind));
}
RT cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t count, cudaMemcpyKind kind, cudaStream_t s) {
    IN_STREAM(s); return done(copy_flat(to, x, y, nullptr, from, count, kind));
}
RT cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t count, cudaMemcpyKind kind) {
    BEGIN; NEED(to, "a null pointer as the destination"); return done(copy_flat(from, x, y, to, nullptr, count, kind));
}
RT cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t x, size_t y, size_t count, cudaMemcpyKind kind, cudaStream_t s) {
    IN_STREAM(s); NEED(to, "a null pointer as the destination"); return done(copy_flat(from, x, y, to, nullptr, count, kind));
}
RT cudaMemcpy2DArrayToArray(cudaArray_t to, size_t tx, size_t ty, cudaArray_const_t from, size_t fx, size_t fy, size_t width, size_t rows, cudaMemcpyKind kind) {
    BEGIN;
    Array* a = nullptr;
    void* at = nullptr;
    if (int code = array_place(to, tx, ty, width, rows, &at, &a)) return done(code);
    return done(copy_rows(from, fx, fy, at, nullptr, a->row(), width, rows, kind));
}
RT cudaMemcpy3D(const cudaMemcpy3DParms* c) {
    BEGIN; NEED(c, "a null pointer");
    size_t element = 1, width = c->extent.width, rows = c->extent.height, planes = c->extent.depth;
    for (const void* handle : {c->srcArray, c->dstArray}) {  // whose elements the extent then counts
        Array* array = nullptr;
        if (handle == nullptr) continue;
        if (int code = array_at(handle, &array)) return done(code);
        element = array->element;
    }
    auto side = [&](const void* handle, const cudaPitchedPtr& p, const cudaPos& pos, Side* out) {
        if (handle) return array_side(handle, pos.x * element, pos.y, pos.z, width * element, rows, planes, out);
        *out = Side{static_cast<char*>(p.ptr) + pos.x + (pos.y + pos.z * p.ysize) * p.pitch, p.pitch, p.ysize};
        return p.ptr ? OK : fail(INVALID_VALUE, "a null pointer");
    };
    Side from, to;
    if (int code = side(c->srcArray, c->srcPtr, c->srcPos, &from)) return done(code);
    if (int code = side(c->dstArray, c->dstPtr, c->dstPos, &to)) return done(code);
    return done(copy_boxes(to, from, width * element, rows, planes, c->kind));
}
RT cudaMemcpy3DAsync(const cudaMemcpy3DParms* c, cudaStream_t s) { IN_STREAM(s); return cudaMemcpy3D(c); }

RT cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* r, const cudaTextureDesc* t, const cudaResourceViewDesc* view) {
    const cudaTextureDesc plain{};
    BEGIN; NEED(out && r && (t || r->resType == cudaResourceTypeLinear), "a null pointer");
    if (t == nullptr) t = &plain;
    if (view) return done(fail(NOT_SUPPORTED, "textures with a resource view are not emulated"));
    TextureAsked asked{uint32_t(r->resType)};
    asked.array = r->res.array.array;
    if (r->resType == cudaResourceTypeLinear) {
        auto& l = r->res.linear;
        if (int code = require_format(l.desc)) return done(code);
        asked.linear = {uint64_t(l.devPtr), l.sizeInBytes, 0, 0, format_of(l.desc), channels_of(l.desc)};
    }
    if (r->resType == cudaResourceTypePitch2D) {
        auto& p = r->res.pitch2D;
        if (int code = require_format(p.desc)) return done(code);
        asked.linear = {uint64_t(p.devPtr), p.width, p.height, 0, format_of(p.desc), channels_of(p.desc)}, asked.pitch = p.pitchInBytes;
    }
    std::copy_n(t->addressMode, 3, asked.sampling.address);
    std::copy_n(t->borderColor, 4, asked.border);
    asked.sampling.linear = t->filterMode == cudaFilterModeLinear;
    asked.sampling.read_normalized = t->readMode == cudaReadModeNormalizedFloat;
    asked.sampling.normalized_coordinates = t->normalizedCoords;
    asked.srgb = t->sRGB;
    uint64_t handle = 0;
    int code = new_texture(asked, &handle);
    *out = handle;
    return done(code);
}
RT cudaDestroyTextureObject(cudaTextureObject_t t) { BEGIN; drop_texture(t); return done(OK); }
RT cudaCreateSurfaceObject(cudaSurfaceObject_t* out, const cudaResourceDesc* r) {
    BEGIN; NEED(out && r, "a null pointer");
    NEED(r->resType == cudaResourceTypeArray, "a surface of something else than a CUDA array");
    uint64_t handle = 0;
    int code = surface(r->res.array.array, &handle);
    *out = handle;
    return done(code);
}
RT cudaDestroySurfaceObject(cudaSurfaceObject_t s) { BEGIN; drop_texture(s); return done(OK); }
}
