// The other one.
#include <cuda_runtime.h>

__constant__ int added[2];
__device__ int twice(int x) { return 2 * x; }

int set_added(int value) { return cudaMemcpyToSymbol(added, &value, sizeof value, sizeof value); }
