// A first matrix product with shared memory, as somebody writes it who has no GPU yet. With -DFORGOTTEN the barrier is
// missing that keeps the fast warps from overwriting a tile which the slow ones still read.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TILE = 16;

__global__ void matmul(int n, const float* a, const float* b, float* c) {
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        a_tile[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        b_tile[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
#ifndef FORGOTTEN
        __syncthreads();
#endif
    }
    c[row * n + column] = sum;
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 64;
    size_t bytes = sizeof(float) * n * n;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; ++i) a[i] = float(i % 13) - 6, b[i] = float(i % 7) - 3;
    float *device_a, *device_b, *device_c;
    cudaMalloc(&device_a, bytes);
    cudaMalloc(&device_b, bytes);
    cudaMalloc(&device_c, bytes);
    cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice);
    matmul<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(n, device_a, device_b, device_c);
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int row = 0; row < n; ++row)
        for (int column = 0; column < n; ++column) {
            float sum = 0;
            for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
            wrong += c[row * n + column] != sum;
        }
    printf("%s, %d wrong elements\n", cudaGetErrorString(error), wrong);
    return wrong ? 1 : 0;
}
