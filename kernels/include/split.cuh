// An fp32 number as two TF32 numbers, for tensor cores.
#pragma once

#include "include/ptx.cuh"

struct Split {
    uint32_t big, small;  // bits of fp32 numbers of which the last 13 are zero
};

// big + small is x but for 2^-22 of it at most: 11 significant bits each, and small has a sign of its own.
__device__ __forceinline__ Split split(float x) {
    Split parts;
    parts.big = ptx::cvt_rna_tf32(__float_as_uint(x));
    parts.small = ptx::cvt_rna_tf32(__float_as_uint(x - __uint_as_float(parts.big)));
    return parts;
}
