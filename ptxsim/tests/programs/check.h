#pragma once
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                              \
    do {                                                                                         \
        cudaError_t error_ = (call);                                                             \
        if (error_ != cudaSuccess) {                                                             \
            printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));               \
            exit(3);                                                                             \
        }                                                                                        \
    } while (0)
#define EXPECT(condition)                                                    \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
            exit(4);                                                         \
        }                                                                    \
    } while (0)
