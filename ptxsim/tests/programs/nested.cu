// Dynamic parallelism, which is refused.
__global__ void inner(int* x) { *x = 5; }
__global__ void outer(int* x) { inner<<<1, 1>>>(x); }

int main() {
    int* x;
    cudaMalloc(&x, 4);
    outer<<<1, 1>>>(x);
    return cudaGetLastError() == cudaErrorNotSupported ? 0 : 1;
}
