// What both cuBLAS stand-ins send: one matrix product, which the emulator computes by NumPy.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "core.hpp"

namespace ptxsim {

enum Status { SUCCESS = 0, NOT_INITIALISED = 1, BAD_VALUE = 7, EXECUTION_FAILED = 13, UNSUPPORTED_PRODUCT = 15 };
enum DataType : uint32_t { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14 };

struct Operand {
    const void* address;
    uint32_t type;
    uint64_t leading, stride;
};

struct Product {
    const char* call;
    const void* stream;
    uint64_t m, n, k;
    bool transpose_a, transpose_b;
    uint32_t batch;
    double alpha, beta;
    Operand a, b, c, d;
    uint32_t epilogue = 1;  // as cublasLtEpilogue_t
    const void* bias = nullptr;
    uint32_t bias_type = 0;
};

inline double half_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0 ? fraction * 0x1p-24 : exponent == 31 ? (fraction ? __builtin_nan("") : __builtin_inf())
                                 : (1024 + fraction) * __builtin_ldexp(1.0, exponent - 25);
    return bits >> 15 ? -value : value;
}

inline double scalar(const void* at, uint32_t type) {  // in host or device memory
    if (at == nullptr) return 0;
    const void* p = alias(at);
    switch (type) {
        case R_64F: { double v; memcpy(&v, p, 8); return v; }
        case R_16F: { uint16_t v; memcpy(&v, p, 2); return half_to_double(v); }
        case R_32I: { int32_t v; memcpy(&v, p, 4); return v; }
        default: { float v; memcpy(&v, p, 4); return double(v); }
    }
}

inline int multiply(const Product& p) {
    auto bits = [](double v) { uint64_t u; memcpy(&u, &v, 8); return u; };
    Buffer b;
    b.text(p.call).u64(p.m).u64(p.n).u64(p.k).u32(p.transpose_a).u32(p.transpose_b).u32(p.batch).u64(bits(p.alpha)).u64(bits(p.beta));
    for (const Operand& o : {p.a, p.b, p.c, p.d}) b.u64(uint64_t(o.address)).u32(o.type).u64(o.leading).u64(o.stride);
    b.u32(p.epilogue).u64(uint64_t(p.bias)).u32(p.bias_type);
    auto work = [b] {
        std::string reply;
        if (!request(GEMM, b, &reply)) return int(EXECUTION_FAILED);
        Reader r(reply);
        r.u32();
        return r.u32() ? int(BAD_VALUE) : int(SUCCESS);
    };
    of_stream(p.stream);
    int code = recorded(KERNEL_NODE, work);
    return code == NOW ? work() : code ? int(EXECUTION_FAILED) : int(SUCCESS);
}

}  // namespace ptxsim
