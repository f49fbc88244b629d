// Tiles come by cp.async, one ahead of the one that is used. PENDING: groups that may still be under way at the use.
#include <cuda_pipeline.h>
#ifndef PENDING
#define PENDING 1
#endif
__global__ void sums(float* out, const float* in, int tiles) {
    __shared__ float ring[2][32];
    float sum = 0;
    for (int t = -1; t < tiles; ++t) {
        if (t + 1 < tiles) __pipeline_memcpy_async(&ring[(t + 1) % 2][threadIdx.x], &in[(t + 1) * 32 + threadIdx.x], 4);
        __pipeline_commit();
        if (t < 0) continue;
        __pipeline_wait_prior(PENDING);
        sum += ring[t % 2][threadIdx.x];
    }
    out[threadIdx.x] = sum;
}
