// 16 bytes a thread: a warp needs four wavefronts, whatever it does; STRIDE in float4 between neighbouring threads.
#ifndef STRIDE
#define STRIDE 1
#endif
__global__ void vectors(float4* out, const float4* in) {
    __shared__ float4 tile[32 * STRIDE];
    tile[threadIdx.x * STRIDE] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x * STRIDE];
}
