// The double buffer of the published kernel 128x128x8 of sgemm.cu, rebuilt around its addresses.
//
// Shared memory is one array that asks for an alignment of 16384 bytes:
//
//     0       8192     16384   20480   24576      bytes into the array
//     | A, 0  | A, 1   | B, 0  | B, 1  |          A: 8 rows of 132 floats; B: 8 rows of 128 floats
//
// A single XOR of an address switches between the two tiles of an operand: ^ 8192 for A, ^ 4096 for B. This is right
// where the array begins at a multiple of 16384. On sm_86 it begins at address 0. From sm_90 on the first 1024 bytes
// belong to the system, and the array begins at 1024 although it asks for more.
//
// Stores add the row of B before the XOR, loads add it afterwards. With the array at 1024, rows 6 and 7 of B's second
// tile are then stored to 15360..16383, in the unused end of A's second tile, and read from 23552..24575, where nothing
// was stored. All of these addresses lie inside the array.
//
// With -DOF_THE_OFFSET the XOR is of the offset into the array instead, and the base is added afterwards.
//
//     ptxsim nvcc -arch=sm_90 -Ikernels -o xor experiments/studies/xor_double_buffer/xor_double_buffer.cu
//     ptxsim exec ./xor 128
//
// C = A B for row-major squares of n = 128, 256, ... with 256 threads for 128 x 128 elements of C.
// Source: sgemm.cu, src/kernels/128x128x8.cuh, and section 5.1 of its article. Only the addresses are the same.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "include/ptx.cuh"

constexpr int TILE = 128, BK = 8, A_LD = 132, B_LD = 128;
constexpr uint32_t A_SLOT = 8192, B_SLOT = 4096, B_TILES = 2 * A_SLOT;

#ifdef OF_THE_OFFSET
constexpr bool OFFSETS = true;
#else
constexpr bool OFFSETS = false;
#endif

__global__ void __launch_bounds__(256, 2) xor_double_buffer(int n, const float* A, const float* B, float* C) {
    __shared__ __align__(16384) float tiles[2 * (A_SLOT + B_SLOT) / sizeof(float)];
    const uint32_t begin = ptx::shared_address(tiles);
    // What the XOR is applied to: an address, as published, or an offset, to which `base` is added at each access.
    const uint32_t base = OFFSETS ? begin : 0, first = OFFSETS ? 0 : begin;

    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int a_row = t / 8 * 4, a_col = t % 8;  // a thread copies four rows of A's tile, transposed,
    const int b_row = warp, b_col = lane;        // and every 32nd word of a row of B's tile
    const int c_row = warp / 2 * 32 + lane / 8 * 8, c_col = warp % 2 * 64 + lane % 8 * 8;  // 8 x 8 elements of C

    uint32_t a_store = first + (a_col * A_LD + a_row) * 4;
    uint32_t b_store = first + B_TILES + (b_row * B_LD + b_col) * 4;
    uint32_t a_load = first + c_row * 4;
    uint32_t b_load = first + B_TILES + c_col * 4;

    A += (blockIdx.y * TILE + a_row) * n + a_col;
    B += b_row * n + blockIdx.x * TILE + b_col;

    float sum[8][8] = {};
    for (int k = 0; k < n; k += BK) {
        ptx::store_shared_4(base + a_store, make_float4(A[k], A[n + k], A[2 * n + k], A[3 * n + k]));
        for (int i = 0; i < 4; ++i) ptx::store_shared(base + b_store + i * 32 * 4, B[k * n + i * 32]);
        __syncthreads();  // both tiles are complete; those of two steps ago are no longer needed
        for (int p = 0; p < BK; ++p) {
            float a[8], b[8];
            for (int i = 0; i < 8; ++i) a[i] = ptx::load_shared(base + a_load + (p * A_LD + i) * 4);
            for (int j = 0; j < 8; ++j) b[j] = ptx::load_shared(base + b_load + (p * B_LD + j) * 4);
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sum[i][j] += a[i] * b[j];
        }
        a_store ^= A_SLOT, a_load ^= A_SLOT;
        b_store ^= B_SLOT, b_load ^= B_SLOT;
    }

    C += (blockIdx.y * TILE + c_row) * n + blockIdx.x * TILE + c_col;
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) C[i * n + j] = sum[i][j];
}

// Small whole numbers, for which every sum is exact in any order.
static std::vector<float> whole_numbers(int count, uint32_t seed) {
    std::vector<float> values(count);
    for (float& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<int>(seed >> 24) % 15 - 7);
    }
    return values;
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : TILE;
    if (n < TILE || n > 1024 || n % TILE) {
        fprintf(stderr, "n = %s is not allowed; allowed: multiples of %d up to 1024\n", argv[1], TILE);
        return 2;
    }
    const size_t bytes = sizeof(float) * n * n;
    const std::vector<float> a = whole_numbers(n * n, 1), b = whole_numbers(n * n, 2);
    std::vector<float> c(n * n);
    float *device_a, *device_b, *device_c;
    cudaMalloc(&device_a, bytes), cudaMalloc(&device_b, bytes), cudaMalloc(&device_c, bytes);
    cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice);
    xor_double_buffer<<<dim3(n / TILE, n / TILE), 256>>>(n, device_a, device_b, device_c);
    if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 3;
    }
    cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int row = 0; row < n; ++row) {
        for (int column = 0; column < n; ++column) {
            float sum = 0;
            for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
            wrong += !(c[row * n + column] == sum);  // a NaN is wrong, too
        }
    }
    printf("%d of %d elements are wrong\n", wrong, n * n);
    return 0;
}
