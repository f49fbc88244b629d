// A transpose through pitched memory.
#include <vector>

#include "check.h"

__global__ void transpose(const float* in, size_t in_pitch, float* out, size_t out_pitch, int rows, int columns) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < columns && y + i < rows) tile[threadIdx.y + i][threadIdx.x] = *(const float*)((const char*)in + (y + i) * in_pitch + x * sizeof(float));
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < rows && y + i < columns) *(float*)((char*)out + (y + i) * out_pitch + x * sizeof(float)) = tile[threadIdx.x][threadIdx.y + i];
}

int main() {
    const int rows = 70, columns = 100;
    std::vector<float> in(rows * columns), out(rows * columns, -1);
    for (int i = 0; i < rows * columns; ++i) in[i] = i;
    float *a, *b;
    size_t pa, pb;
    CHECK(cudaMallocPitch(&a, &pa, columns * sizeof(float), rows));
    CHECK(cudaMallocPitch(&b, &pb, rows * sizeof(float), columns));
    EXPECT(pa % 512 == 0 && pa >= columns * sizeof(float));
    CHECK(cudaMemset2D(b, pb, 0xff, rows * sizeof(float), columns));
    CHECK(cudaMemcpy2D(a, pa, in.data(), columns * sizeof(float), columns * sizeof(float), rows, cudaMemcpyHostToDevice));
    transpose<<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(a, pa, b, pb, rows, columns);
    CHECK(cudaMemcpy2D(out.data(), rows * sizeof(float), b, pb, rows * sizeof(float), columns, cudaMemcpyDeviceToHost));
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) EXPECT(out[j * rows + i] == in[i * columns + j]);
    // a volume, a plane at a time
    cudaPitchedPtr volume;
    CHECK(cudaMalloc3D(&volume, make_cudaExtent(10 * sizeof(float), 4, 3)));
    CHECK(cudaMemset3D(volume, 0, make_cudaExtent(10 * sizeof(float), 4, 3)));
    cudaMemcpy3DParms there{}, back{};
    std::vector<float> flat(120), again(120, -1);
    for (int i = 0; i < 120; ++i) flat[i] = i;
    there.srcPtr = make_cudaPitchedPtr(flat.data(), 10 * sizeof(float), 10, 4), there.dstPtr = volume;
    there.extent = make_cudaExtent(10 * sizeof(float), 4, 3), there.kind = cudaMemcpyHostToDevice;
    back.dstPtr = make_cudaPitchedPtr(again.data(), 10 * sizeof(float), 10, 4), back.srcPtr = volume;
    back.extent = there.extent, back.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&there));
    CHECK(cudaMemcpy3D(&back));
    EXPECT(flat == again);
    printf("PASS\n");
}
