// The SIMT rungs of this project's ladder, each launched as its entry in kernels/catalogue.yaml says, and checked against a
// product on the CPU:  ladder NAME [N]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "sgemm/blocktile_1d.cu"
#include "sgemm/blocktile_2d.cu"
#include "sgemm/coalesced.cu"
#include "sgemm/naive.cu"
#include "sgemm/smem_tile.cu"
#include "sgemm/vectorized.cu"
#include "sgemm/warptile.cu"

typedef void (*Kernel)(int, int, int, float, const float*, int, const float*, int, float, float*, int);

struct Rung {
    const char* name;
    Kernel kernel;
    int tile_m, tile_n, threads;
    bool rows_first;  // whether the grid's x runs over tiles of m
};

static const Rung RUNGS[] = {
    {"naive", sgemm_naive<32>, 32, 32, 1024, true},
    {"coalesced", sgemm_coalesced<32>, 32, 32, 1024, true},
    {"smem_tile", sgemm_smem_tile<32>, 32, 32, 1024, true},
    {"blocktile_1d", sgemm_blocktile_1d<64, 64, 8, 8>, 64, 64, 512, false},
    {"blocktile_2d", sgemm_blocktile_2d<128, 128, 8, 8, 8, 0, false, 0, 0>, 128, 128, 256, false},
    {"vectorized", sgemm_vectorized<128, 128, 8, 8, 8, 0, false, 0>, 128, 128, 256, false},
    {"warptile", sgemm_warptile<128, 128, 16, 64, 64, 4, 8, 4, 128>, 128, 128, 128, false},
};

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t error = (call);                                            \
        if (error != cudaSuccess) {                                            \
            printf("line %d: %s\n", __LINE__, cudaGetErrorString(error));      \
            return 2;                                                          \
        }                                                                      \
    } while (0)

int main(int argc, char** argv) {
    const char* name = argc > 1 ? argv[1] : "smem_tile";
    const int n = argc > 2 ? atoi(argv[2]) : 256;
    const Rung* rung = nullptr;
    for (const Rung& r : RUNGS)
        if (strcmp(r.name, name) == 0) rung = &r;
    if (rung == nullptr || n % rung->tile_m) {
        printf("no rung %s, or %d is no multiple of its tile\n", name, n);
        return 2;
    }
    std::vector<float> a(n * n), b(n * n), c(n * n, 1.0f);
    for (int i = 0; i < n * n; ++i) a[i] = float(i * 7 % 11) - 5, b[i] = float(i * 3 % 5) - 2;
    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, a.size() * 4));
    CHECK(cudaMalloc(&db, b.size() * 4));
    CHECK(cudaMalloc(&dc, c.size() * 4));
    CHECK(cudaMemcpy(da, a.data(), a.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), b.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dc, c.data(), c.size() * 4, cudaMemcpyHostToDevice));
    const int m_tiles = n / rung->tile_m, n_tiles = n / rung->tile_n;
    const dim3 grid = rung->rows_first ? dim3(m_tiles, n_tiles) : dim3(n_tiles, m_tiles);
    rung->kernel<<<grid, rung->threads>>>(n, n, n, 2.0f, da, n, db, n, 3.0f, dc, n);  // C = 2 A B + 3 C
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost));
    std::vector<float> row(n);
    int wrong = 0;
    for (int i = 0; i < n; ++i) {
        std::fill(row.begin(), row.end(), 0.0f);
        for (int k = 0; k < n; ++k)
            for (int j = 0; j < n; ++j) row[j] += a[i * n + k] * b[k * n + j];
        for (int j = 0; j < n; ++j) wrong += c[i * n + j] != 2 * row[j] + 3;
    }
    printf("%s, %d x %d: %d wrong elements\n", name, n, n, wrong);
    return wrong ? 1 : 0;
}
