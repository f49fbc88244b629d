// A vector sum by float4, right for n of whole blocks only.
__global__ void add(float* c, const float* a, const float* b, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    float4 x = *(const float4*)(a + i), y = *(const float4*)(b + i);
    *(float4*)(c + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}
