// Loads and stores of shared memory that ptxas merges, and such that it leaves apart, a kernel each. Where the kernel has a
// second argument the test gives 4 for it.

#include <cstdint>

#define KERNEL extern "C" __global__ void

__device__ const float* filled(float* s, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) s[i] = i;
    __syncthreads();
    return s;
}

__device__ void use(float* out, float value) { out[threadIdx.x] = value; }

__device__ float four(const float* p) { return p[0] + 2 * p[1] + 3 * p[2] + 4 * p[3]; }

#define TILE                               \
    __shared__ alignas(16) float s[1032];  \
    filled(s, 1032);                       \
    const float* p = s + threadIdx.x * 4;

KERNEL all_four(float* out) { TILE use(out, four(p)); }
KERNEL backwards(float* out) { TILE use(out, ((3 * p[3] + p[2]) * 5 + p[1]) * 7 + p[0]); }
KERNEL first_three(float* out) { TILE use(out, p[0] + 3 * p[1] + 5 * p[2]); }
KERNEL last_three(float* out) { TILE use(out, p[1] + 3 * p[2] + 5 * p[3]); }
KERNEL a_hole(float* out) { TILE use(out, p[0] + 2 * p[1] + 3 * p[3] + 4 * p[8] + 5 * p[10] + 6 * p[11]); }
KERNEL odd_pair(float* out) { TILE use(out, p[1] + 3 * p[2]); }
KERNEL seven(float* out) {
    TILE float sum = 0;
    for (int i = 0; i < 7; ++i) sum += (i + 2) * p[i];
    use(out, sum);
}
KERNEL one_after_the_other(float* out) {
    TILE float x = p[2];
    x = x * x + p[0];
    x = x * x + p[3];
    use(out, x * x + p[1]);
}
KERNEL pairs(float* out) {
    TILE const float2* q = reinterpret_cast<const float2*>(p);
    const float2 a = q[0], b = q[1], c = q[3], d = q[4];
    use(out, a.x + 2 * a.y + 3 * b.x + 4 * b.y + c.x * c.y + d.x * d.y);
}
KERNEL not_declared_aligned(float* out) {
    __shared__ float s[1024];
    use(out, four(filled(s, 1024) + threadIdx.x * 4));
}
KERNEL behind_one_word(float* out) {
    __shared__ float first[1], s[1024];
    first[0] = 1;
    use(out, four(filled(s, 1024) + threadIdx.x * 4) + first[0]);
}
KERNEL stride_not_known(float* out, int stride) {
    __shared__ alignas(16) float s[1024];
    use(out, four(filled(s, 1024) + threadIdx.x * stride));
}
KERNEL stride_of_four_times(float* out, int stride) {
    __shared__ alignas(16) float s[1024];
    use(out, four(filled(s, 1024) + threadIdx.x % 16 * stride * 4));
}
KERNEL masked(float* out, int factor) {
    __shared__ alignas(16) float s[1024];
    use(out, four(filled(s, 1024) + (threadIdx.x * factor & 252)));
}
KERNEL swizzled(float* out) {
    __shared__ alignas(16) float s[1024];
    use(out, four(filled(s, 1024) + (threadIdx.x * 4 ^ threadIdx.x / 8 * 4)));
}
KERNEL aligned_as_a_vector_needs(float* out, int stride) {
    __shared__ alignas(16) float s[1024];
    const float* p = filled(s, 1024) + threadIdx.x * stride;
    const float4 v = *reinterpret_cast<const float4*>(p + 8);
    use(out, v.x + v.y * v.z + v.w + four(p));
}
KERNEL dynamic(float* out) {
    extern __shared__ float d[];
    use(out, four(filled(d, 1024) + threadIdx.x * 4));
}
KERNEL rows_in_a_loop(float* out, int count) {
    __shared__ alignas(16) float s[64][16];
    filled(&s[0][0], 1024);
    float sum = 0;
    for (int k = 0; k < count; ++k) sum += four(&s[k][threadIdx.x % 4 * 4]);
    use(out, sum);
}
KERNEL halves(float* out) {
    __shared__ alignas(16) unsigned short s[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) s[i] = i;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 8; ++i) sum += (i + 1) * s[threadIdx.x * 8 + i];
    use(out, sum);
}
KERNEL doubles(double* out) {
    __shared__ alignas(16) double s[512];
    for (int i = threadIdx.x; i < 512; i += blockDim.x) s[i] = i;
    __syncthreads();
    const double* p = s + threadIdx.x * 4;
    out[threadIdx.x] = p[0] + 2 * p[1] + 3 * p[2] + 4 * p[3];
}
KERNEL words_of_two_types(float* out) {
    TILE const int* q = reinterpret_cast<const int*>(p);
    use(out, q[0] + 2 * p[1] + 3 * q[2] + 4 * p[3]);
}
KERNEL constant_place(float* out) {
    TILE use(out, four(s) + s[9] + 2 * s[10] + 3 * s[11] + p[0]);
}
KERNEL volatile_loads(float* out) {
    TILE const volatile float* q = p;
    use(out, q[0] + 2 * q[1] + 3 * q[2] + 4 * q[3]);
}
KERNEL a_store_between(float* out) {
    TILE const float a = p[0], b = p[1];
    s[threadIdx.x * 4 + 4] = a;
    use(out, a + 2 * b + 3 * p[2] + 4 * p[3]);
}
KERNEL a_global_store_between(float* out) {
    TILE const float a = p[0], b = p[1];
    out[threadIdx.x + 64] = a;
    use(out, a + 2 * b + 3 * p[2] + 4 * p[3]);
}
KERNEL a_warp_barrier_between(float* out) {
    TILE const float a = p[0], b = p[1];
    __syncwarp();
    use(out, a + 2 * b + 3 * p[2] + 4 * p[3]);
}
KERNEL a_shuffle_between(float* out) {
    TILE const float a = __shfl_down_sync(~0u, p[0] + p[1], 1);
    use(out, a + 3 * p[2] + 4 * p[3]);
}
KERNEL where_a_condition_holds(float* out, int count) {
    TILE float sum = 0;
    if (threadIdx.x < count) sum = four(p);
    use(out, sum);
}
KERNEL stores(float* out) {
    __shared__ alignas(16) float s[1024];
    float* p = s + threadIdx.x * 8;
    const float x = out[threadIdx.x];
    p[0] = x;
    p[1] = x + 1;
    p[2] = x + 2;
    p[3] = x + 3;
    p[4] = x + 4;
    p[6] = x + 6;
    p[7] = x + 7;
    __syncthreads();
    use(out, s[threadIdx.x * 5 % 512]);
}
KERNEL stores_of_two_rows(float* out) {
    __shared__ alignas(16) float s[1024], t[1024];
    const float x = out[threadIdx.x];
    s[threadIdx.x * 2] = x;
    t[threadIdx.x * 2] = x + 1;
    s[threadIdx.x * 2 + 1] = x + 2;
    t[threadIdx.x * 2 + 1] = x + 3;
    __syncthreads();
    use(out, s[threadIdx.x * 5 % 128] + t[threadIdx.x]);
}
