// What the sources of the runtime API share: the last error, and the frame of an entry point.
#pragma once

#include <cuda_runtime_api.h>

#include "core.hpp"

cudaError_t done(int code);  // keeps an error for cudaGetLastError

#define BEGIN     \
    PTXSIM_ENTER; \
    if (int code_ = ptxsim::ready()) return done(code_)
#define NEED(condition, ...) \
    if (!(condition)) return done(ptxsim::fail(ptxsim::INVALID_VALUE, __VA_ARGS__))
#define RT PTXSIM_API cudaError_t
