// Indices beyond 32 bits, wrong and right; a product whose grid can be large.
#define KERNEL extern "C" __global__ void
typedef unsigned char byte;

KERNEL product(byte* c, int row, int n) { c[row * n + (int)threadIdx.x] = 1; }
KERNEL wide(byte* c, int row, int n) { c[(size_t)row * n + threadIdx.x] = 1; }
KERNEL unsigned_product(byte* c, unsigned row, unsigned n) { c[row * n + threadIdx.x] = 1; }
KERNEL shifted(byte* c, int row) { c[(row << 16) + (int)threadIdx.x] = 1; }
KERNEL sum(byte* c, int from) {
    int i = from + (int)threadIdx.x;
    c[i] = 1;
}
KERNEL stored(byte* c, int row, int n) { ((int*)c)[threadIdx.x] = row * n; }  // a value, not an address
KERNEL hashed(byte* c, unsigned factor) { c[threadIdx.x * factor >> 20] = 1; }
KERNEL masked(byte* c, unsigned row, unsigned n) { c[(row * n + threadIdx.x) & 1023] = 1; }
KERNEL picked(byte* c, unsigned bits) { ((int*)c)[bits & 3] = 1; }  // shifted, widened, then masked
KERNEL clamped(byte* c, unsigned last) { c[min(threadIdx.x - 1, last)] = 1; }
KERNEL hidden(byte* c, unsigned row, unsigned n, int how) {
    const unsigned i = row * n + threadIdx.x;
    c[how == 0 ? i >> 5 : how == 1 ? i / n : how == 2 ? min(i, 5000u) : how == 3 ? unsigned(max(int(i), 7)) : unsigned(int(i) / 100)] = 1;
}
KERNEL before(byte* c, int from) { c[from - 1 - (int)threadIdx.x] = 1; }
KERNEL back_again(byte* c, unsigned row, unsigned n) {
    unsigned first = row * n;
    asm volatile("" : "+r"(first));
    c[first + threadIdx.x - row * n] = 1;
}
KERNEL branches(byte* c, int row, int n) {  // only threads that do not use their index have one that wraps
    int i = (threadIdx.x < 16 ? row : 1) * n;
    asm volatile("" : "+r"(i));
    if (threadIdx.x == 16) c[i] = 1;
}
KERNEL less(byte* c, unsigned from, unsigned by) { c[from - by + threadIdx.x] = 1; }

KERNEL tiles(float* c, const float* a, const float* b, int n) {
    __shared__ float s[32][32], t[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += 32) {
        for (int i = y; i < 32; i += 8) s[i][x] = a[(blockIdx.y * 32 + i) * n + k + x], t[x][i] = b[(k + i) * n + blockIdx.x * 32 + x];
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += s[y][i] * t[x][i];
        __syncthreads();
    }
    c[(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x] = sum;
}
