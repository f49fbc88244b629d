// D = A B' in fp16 with sums in fp32: tiles of 64 x 64 by TMA and wgmma, two blocks of a cluster share each tile of B.
// Encodes its own tensor maps, with the driver's entry point from the runtime.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <vector>

#include "check.h"

constexpr int TILE = 64, STAGES = 2, BYTES = TILE * TILE * 2;

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
__device__ void wait(unsigned barrier, int parity) {
    asm volatile(
        "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
__device__ unsigned long long descriptor(unsigned address) {  // K-major, 128-byte swizzle: 1024 bytes from 8 rows to the next
    return (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

extern __shared__ __align__(1024) unsigned char dynamic[];

__global__ void __cluster_dims__(2, 1, 1) hgemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* d, int n, int k) {
    __shared__ __align__(8) unsigned long long full[STAGES];
    unsigned char* base = (unsigned char*)(((size_t)dynamic + 1023) & ~(size_t)1023);
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    int row = blockIdx.x * TILE, column = blockIdx.y * TILE;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[s])));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    float acc[32] = {};
    for (int step = 0; step < k / TILE; ++step) {
        int stage = step % STAGES, parity = step / STAGES % 2;
        unsigned bar = shared_address(&full[stage]), ta = shared_address(base + stage * 2 * BYTES), tb = ta + BYTES;
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(2 * BYTES) : "memory");
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(ta),
                         "l"(&a), "r"(bar), "r"(step * TILE), "r"(row)
                         : "memory");
            // each block of the cluster brings half of B's tile to both
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(
                    tb + rank * (BYTES / 2)),
                "l"(&b), "r"(bar), "r"(step * TILE), "r"(column + int(rank) * TILE / 2), "h"((unsigned short)3)
                : "memory");
        }
        wait(bar, parity);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int part = 0; part < TILE / 16; ++part) {
            unsigned long long da = descriptor(ta + part * 32), db = descriptor(tb + part * 32);
            asm volatile(
                "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                "%32, %33, 1, 1, 1, 0, 0;"
                : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7]), "+f"(acc[8]),
                  "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]),
                  "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]),
                  "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31])
                : "l"(da), "l"(db));
        }
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        // both blocks have read this stage before either fills it again
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 32; i += 2) {
        int y = row + warp * 16 + lane / 4 + (i / 2 % 2) * 8, x = column + i / 4 * 8 + lane % 4 * 2;
        *(float2*)&d[y * n + x] = make_float2(acc[i], acc[i + 1]);
    }
}

typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                           const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int main() {
    const int m = 128, n = 128, k = 192;
    std::vector<__half> a(m * k), b(n * k);
    for (int i = 0; i < m * k; ++i) a[i] = __float2half(float(i * 7 % 13) - 6);
    for (int i = 0; i < n * k; ++i) b[i] = __float2half(float(i * 5 % 11) - 5);
    __half *da, *db;
    float* dd;
    CHECK(cudaMalloc(&da, a.size() * 2));
    CHECK(cudaMalloc(&db, b.size() * 2));
    CHECK(cudaMalloc(&dd, m * n * 4));
    CHECK(cudaMemcpy(da, a.data(), a.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), b.size() * 2, cudaMemcpyHostToDevice));
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    EXPECT(found == cudaDriverEntryPointSuccess);
    auto encode = reinterpret_cast<Encode>(entry);
    CUtensorMap maps[2];
    for (int i = 0; i < 2; ++i) {
        cuuint64_t size[2] = {(cuuint64_t)k, (cuuint64_t)(i ? n : m)}, stride[1] = {(cuuint64_t)k * 2};
        cuuint32_t box[2] = {TILE, (cuuint32_t)(i ? TILE / 2 : TILE)}, step[2] = {1, 1};
        EXPECT(encode(&maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, i ? (void*)db : (void*)da, size, stride, box, step,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
    }
    int shared = STAGES * 2 * BYTES + 1024;
    CHECK(cudaFuncSetAttribute(hgemm, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(m / TILE, n / TILE), config.blockDim = 128, config.dynamicSmemBytes = shared;
    CHECK(cudaLaunchKernelEx(&config, hgemm, maps[0], maps[1], dd, n, k));
    std::vector<float> d(m * n);
    CHECK(cudaMemcpy(d.data(), dd, d.size() * 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < m; ++y)
        for (int x = 0; x < n; ++x) {
            float sum = 0;
            for (int i = 0; i < k; ++i) sum += __half2float(a[y * k + i]) * __half2float(b[x * k + i]);
            EXPECT(d[y * n + x] == sum);
        }
    printf("PASS\n");
}
