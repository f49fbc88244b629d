// y = a * x. scale.ptx is this file, compiled: nvcc -arch sm_75 -lineinfo -ptx scale.cu
extern "C" __global__ void scale(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
