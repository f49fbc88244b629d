// CUDA arrays, and textures and surfaces of them: libcuda's part, with the driver API. Elements lie row by row without
// gaps in device memory that no pointer of the program leads to; a device orders them in a way that nobody documents.
#include "core.hpp"

#include <cuda.h>

#include <algorithm>

namespace ptxsim {

namespace {
std::map<const void*, std::unique_ptr<Array>> arrays;

size_t component_bytes(uint32_t format) {
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8: case CU_AD_FORMAT_SIGNED_INT8: return 1;
        case CU_AD_FORMAT_UNSIGNED_INT16: case CU_AD_FORMAT_SIGNED_INT16: case CU_AD_FORMAT_HALF: return 2;
        case CU_AD_FORMAT_UNSIGNED_INT32: case CU_AD_FORMAT_SIGNED_INT32: case CU_AD_FORMAT_FLOAT: return 4;
        default: return 0;
    }
}
}  // namespace

int new_array(const Array& asked, Array** out) {
    constexpr uint32_t KNOWN = ARRAY_LAYERED | ARRAY_SURFACE | ARRAY_CUBE | ARRAY_GATHER;
    auto made = std::make_unique<Array>(asked);
    made->element = component_bytes(asked.format) * asked.channels;
    if (made->element == 0 || (asked.channels != 1 && asked.channels != 2 && asked.channels != 4))
        return fail(INVALID_VALUE, "an array of %u channels in format %u; emulated: 1, 2 or 4 channels of 8, 16 or 32 bits", asked.channels,
                    asked.format);
    if (asked.flags & ~KNOWN)
        return fail(NOT_SUPPORTED, "arrays with flags 0x%x are not emulated; emulated: layered, cube map, surface, gather", asked.flags);
    bool layered = asked.flags & (ARRAY_LAYERED | ARRAY_CUBE);
    if (asked.width == 0 || (layered && asked.depth == 0) || (!layered && asked.depth && !asked.height))
        return fail(INVALID_VALUE, "an array of %zu x %zu x %zu elements", asked.width, asked.height, asked.depth);
    if ((asked.flags & ARRAY_CUBE) && (asked.width != asked.height || asked.depth % 6))
        return fail(INVALID_VALUE, "a cube map of %zu x %zu elements and %zu faces; it is square, with 6 faces a layer", asked.width, asked.height,
                    asked.depth);
    void* at = nullptr;
    if (int code = allocate(made->row() * made->rows() * made->planes(), DEVICE, &at)) return code;
    made->address = uint64_t(at);
    *out = made.get();
    arrays[*out] = std::move(made);
    return OK;
}

int array_at(const void* handle, Array** out) {
    auto found = arrays.find(handle);
    if (found == arrays.end()) return fail(INVALID_HANDLE, "%p is no CUDA array, or was freed", handle);
    *out = found->second.get();
    return OK;
}

int free_array(const void* handle) {
    if (handle == nullptr) return OK;
    Array* array = nullptr;
    if (int code = array_at(handle, &array)) return code;
    if (int code = release(reinterpret_cast<void*>(array->address), false)) return code;
    arrays.erase(handle);
    return OK;
}

void forget_arrays() { arrays.clear(); }

int array_place(const void* handle, size_t x, size_t y, size_t width, size_t rows, void** at, Array** array) {
    if (int code = array_at(handle, array)) return code;
    const Array& a = **array;
    if (x + width > a.row() || y + rows > a.rows())
        return fail(INVALID_VALUE, "%zu rows of %zu bytes at byte %zu of row %zu; the array has %zu rows of %zu bytes", rows, width, x, y, a.rows(),
                    a.row());
    *at = reinterpret_cast<void*>(a.address + y * a.row() + x);
    return OK;
}

int copy_boxes(const Side& to, const Side& from, size_t width, size_t rows, size_t planes, int direction) {
    for (size_t z = 0; z < planes; ++z)
        if (int code = copy_2d(to.at + z * to.rows * to.pitch, to.pitch, from.at + z * from.rows * from.pitch, from.pitch, width, rows, direction))
            return code;
    return OK;
}

int array_side(const void* handle, size_t x, size_t y, size_t z, size_t width, size_t rows, size_t planes, Side* out) {
    Array* array = nullptr;
    void* at = nullptr;
    if (int code = array_place(handle, x, y, width, rows, &at, &array)) return code;
    if (z + planes > array->planes())
        return fail(INVALID_VALUE, "%zu planes from number %zu; the array has %zu", planes, z, array->planes());
    *out = Side{static_cast<char*>(at) + z * array->rows() * array->row(), array->row(), array->rows()};
    return OK;
}

int array_texture(const Array& a, const Sampling& s, size_t pitch, uint64_t* handle) {
    uint64_t number = next_texture_handle();
    Buffer b;
    b.u64(number).u64(a.address).u64(pitch).u64(a.width).u64(a.height).u64(a.depth);
    b.u32(a.format).u32(a.channels).u32(a.flags);
    for (uint32_t mode : s.address) b.u32(mode);
    b.u32(s.linear).u32(s.read_normalized).u32(s.normalized_coordinates);
    std::string reply;
    if (!request(ARRAY_TEXTURE, b, &reply)) return sticky();
    std::string refused = Reader(reply).text();
    if (!refused.empty()) return fail(INVALID_VALUE, "%s", refused.c_str());
    *handle = number;
    return OK;
}

int surface(const void* handle, uint64_t* out) {
    Array* array = nullptr;
    if (int code = array_at(handle, &array)) return code;
    if (!(array->flags & ARRAY_SURFACE)) return fail(INVALID_VALUE, "a surface of an array that was made without cudaArraySurfaceLoadStore");
    return array_texture(*array, Sampling{{1, 1, 1}, false, false, false}, array->row(), out);
}

}  // namespace ptxsim

using namespace ptxsim;

#define DO(...) return CUresult(__VA_ARGS__)
#define BEGIN            \
    PTXSIM_ENTER;        \
    if (int code_ = ready()) return CUresult(code_)
#define NEED(condition, ...) \
    if (!(condition)) return CUresult(fail(INVALID_VALUE, __VA_ARGS__))

extern "C" {

PTXSIM_API CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* d) {
    BEGIN; NEED(out && d, "a null pointer");
    Array* made = nullptr;
    int code = new_array(Array{0, d->Width, d->Height, d->Depth, uint32_t(d->Format), d->NumChannels, d->Flags}, &made);
    *out = reinterpret_cast<CUarray>(made);
    DO(code);
}
PTXSIM_API CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
    BEGIN; NEED(out && d, "a null pointer");
    CUDA_ARRAY3D_DESCRIPTOR flat{d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    return cuArray3DCreate(out, &flat);
}
PTXSIM_API CUresult cuArrayDestroy(CUarray a) { BEGIN; DO(free_array(a)); }
PTXSIM_API CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* d, CUarray handle) {
    BEGIN; NEED(d, "a null pointer");
    Array* a = nullptr;
    if (int code = array_at(handle, &a)) DO(code);
    *d = {a->width, a->height, a->depth, CUarray_format(a->format), a->channels, a->flags};
    DO(OK);
}
PTXSIM_API CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* d, CUarray handle) {
    BEGIN; NEED(d, "a null pointer");
    Array* a = nullptr;
    if (int code = array_at(handle, &a)) DO(code);
    *d = {a->width, a->height, CUarray_format(a->format), a->channels};
    DO(OK);
}
PTXSIM_API CUresult cuMemcpyHtoA(CUarray to, size_t offset, const void* from, size_t n) {
    BEGIN;
    void* at = nullptr;
    Array* array = nullptr;
    if (int code = array_place(to, offset, 0, n, 1, &at, &array)) DO(code);
    DO(copy(at, from, n, TO_DEVICE));
}
PTXSIM_API CUresult cuMemcpyAtoH(void* to, CUarray from, size_t offset, size_t n) {
    BEGIN;
    void* at = nullptr;
    Array* array = nullptr;
    if (int code = array_place(from, offset, 0, n, 1, &at, &array)) DO(code);
    DO(copy(to, at, n, TO_HOST));
}
PTXSIM_API CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* r) {
    BEGIN; NEED(out && r, "a null pointer");
    NEED(r->resType == CU_RESOURCE_TYPE_ARRAY, "a surface of something else than a CUDA array");
    uint64_t handle = 0;
    int code = surface(r->res.array.hArray, &handle);
    *out = handle;
    DO(code);
}
PTXSIM_API CUresult cuSurfObjectDestroy(CUsurfObject s) { BEGIN; drop_texture(s); DO(OK); }
PTXSIM_API CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* r, const CUDA_TEXTURE_DESC* t, const CUDA_RESOURCE_VIEW_DESC* view) {
    CUDA_TEXTURE_DESC plain{};
    plain.flags = CU_TRSF_READ_AS_INTEGER;
    BEGIN; NEED(out && r && (t || r->resType == CU_RESOURCE_TYPE_LINEAR), "a null pointer");
    if (t == nullptr) t = &plain;
    if (view) DO(fail(NOT_SUPPORTED, "textures with a resource view are not emulated"));
    TextureAsked asked{uint32_t(r->resType)};
    asked.array = r->res.array.hArray;
    if (r->resType == CU_RESOURCE_TYPE_LINEAR)
        asked.linear = {uint64_t(r->res.linear.devPtr), r->res.linear.sizeInBytes, 0, 0, uint32_t(r->res.linear.format), r->res.linear.numChannels};
    if (r->resType == CU_RESOURCE_TYPE_PITCH2D) {
        auto& p = r->res.pitch2D;
        asked.linear = {uint64_t(p.devPtr), p.width, p.height, 0, uint32_t(p.format), p.numChannels}, asked.pitch = p.pitchInBytes;
    }
    std::copy_n(t->addressMode, 3, asked.sampling.address);
    std::copy_n(t->borderColor, 4, asked.border);
    asked.sampling.linear = t->filterMode == CU_TR_FILTER_MODE_LINEAR;
    asked.sampling.read_normalized = !(t->flags & CU_TRSF_READ_AS_INTEGER);
    asked.sampling.normalized_coordinates = t->flags & CU_TRSF_NORMALIZED_COORDINATES;
    asked.srgb = t->flags & CU_TRSF_SRGB;
    uint64_t handle = 0;
    int code = new_texture(asked, &handle);
    *out = handle;
    DO(code);
}
PTXSIM_API CUresult cuTexObjectDestroy(CUtexObject t) { BEGIN; drop_texture(t); DO(OK); }
}

namespace ptxsim {

int new_texture(const TextureAsked& asked, uint64_t* handle) {
    Sampling s = asked.sampling;
    const Array* of = &asked.linear;
    if (asked.type == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) return fail(NOT_SUPPORTED, "textures of mipmapped arrays are not emulated");
    if (asked.type == CU_RESOURCE_TYPE_ARRAY) {
        Array* array = nullptr;
        if (int code = array_at(asked.array, &array)) return code;
        of = array;
    }
    s.read_normalized = s.read_normalized && of->format < CU_AD_FORMAT_HALF;  // floats are read as they are
    if (asked.type == CU_RESOURCE_TYPE_LINEAR)
        return linear_texture(reinterpret_cast<void*>(of->address), of->width, int(of->format), int(of->channels), s.read_normalized, handle);
    if (asked.srgb) return fail(NOT_SUPPORTED, "textures that convert from sRGB are not emulated");
    bool border = std::count(s.address, s.address + 3, uint32_t(CU_TR_ADDRESS_MODE_BORDER)) > 0;
    if (border && std::any_of(asked.border, asked.border + 4, [](float c) { return c != 0; }))
        return fail(NOT_SUPPORTED, "a border colour other than zeros is not emulated");
    if (asked.type == CU_RESOURCE_TYPE_ARRAY) return array_texture(*of, s, of->row(), handle);
    size_t element = component_bytes(of->format) * of->channels, row = element * of->width;
    if (element == 0 || of->width == 0 || of->height == 0 || row > asked.pitch || asked.pitch % 32)
        return fail(INVALID_VALUE, "%zu rows of %zu elements of %zu bytes at a pitch of %zu bytes, which must be a multiple of 32", of->height, of->width,
                    element, asked.pitch);
    if (int code = require_memory(reinterpret_cast<void*>(of->address), asked.pitch * (of->height - 1) + row)) return code;
    return array_texture(*of, s, asked.pitch, handle);
}

}  // namespace ptxsim
