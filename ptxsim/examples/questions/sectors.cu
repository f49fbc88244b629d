// An array of structs: each thread wants 4 of 16 bytes.
struct Point { float x, y, z, mass; };
__global__ void masses(float* out, const Point* points) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = points[i].mass;
}
