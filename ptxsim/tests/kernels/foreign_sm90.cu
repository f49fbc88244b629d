// What other people's kernels for sm_90 use beyond foreign.cu: copies in bulk that signal an mbarrier, warps with roles,
// stmatrix, mma of 8-bit floats, clusters of one block. Each takes (out, in) and one block of 128 threads.

#include <cuda/ptx>

#include <cooperative_groups.h>
#include <cstdint>

namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void init(uint64_t* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
__device__ void expect(uint64_t* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}
__device__ void arrive(uint64_t* bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ void wait(uint64_t* bar, int parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "  @done bra DONE;\n"
        "  bra WAIT;\n"
        "DONE: }" ::"r"(shared_address(bar)),
        "r"(parity)
        : "memory");
}
__device__ void fetch(void* to, const void* from, int bytes, uint64_t* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(bar))
                 : "memory");
}
__device__ bool elected() {
    uint32_t chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p; }" : "=r"(chosen));
    return chosen;
}

// One warp copies tiles of 96 words into a ring of `STAGES`, three warps take them. `fault` leaves out a step.
KERNEL ring(int* out, const int* in, int tiles, int fault) {
    constexpr int STAGES = 3, WORDS = 96;
    __shared__ alignas(128) int stage[STAGES][WORDS];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) init(&full[i], 1), init(&empty[i], WORDS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");  // the whole warpgroup
    if (threadIdx.x < 32) {
        for (int i = 0; i < tiles; ++i) {
            const int slot = i % STAGES, turn = i / STAGES % 2;
            wait(&empty[slot], turn ^ 1);
            if (elected()) {
                expect(&full[slot], fault == 1 ? 400 : 4 * WORDS);
                fetch(stage[slot], in + i * WORDS, 4 * WORDS, &full[slot]);
            }
            __syncwarp();
        }
    } else {
        const int me = threadIdx.x - 32;
        int sum = 0;
        for (int i = 0; i < tiles; ++i) {
            const int slot = i % STAGES, turn = i / STAGES % 2;
            if (fault != 2) wait(&full[slot], turn);
            sum += stage[slot][(me * 7 + i) % WORDS] * (i + 1);
            if (fault != 3) arrive(&empty[slot]);
        }
        out[me] = sum;
    }
}

KERNEL back_in_bulk(int* out, const int* in) {  // shared memory to global memory
    __shared__ alignas(16) int s[128];
    s[threadIdx.x] = in[127 - threadIdx.x] + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(shared_address(s)), "r"(512)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}

KERNEL arrivals(int* out, const int* in) {  // counts, drops, tokens, test_wait
    __shared__ uint64_t bar;
    __shared__ int s[128];
    if (threadIdx.x == 0) init(&bar, 128);
    __syncthreads();
    const uint32_t at = shared_address(&bar);
    s[threadIdx.x] = in[ME];
    uint64_t token;
    uint32_t pending, done = 0;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(token));
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(at), "l"(token)
                     : "memory");
    }
    int sum = s[(threadIdx.x + 1) % 128];
    if (threadIdx.x < 64) {  // 64 leave after this phase
        asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");  // two of them arrive for all
        if (threadIdx.x == 64) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 63;" ::"r"(at) : "memory");
        if (threadIdx.x == 65) arrive(&bar);
        wait(&bar, 1);
        s[threadIdx.x] = sum;
        arrive(&bar);
        wait(&bar, 0);
        sum += 1000 * s[64 + (threadIdx.x + 1) % 64];
    }
    out[ME] = sum + (pending > 0 && pending <= 128 ? 0 : 1 << 30);
}

KERNEL wrappers(int* out, const int* in) {  // the same through cuda::ptx
    using namespace cuda::ptx;
    __shared__ alignas(16) int s[256];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) mbarrier_init(&bar, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(sem_release, scope_cta, space_shared, &bar, sizeof(s));
        cp_async_bulk(space_cluster, space_global, s, in, 512, &bar);
        cp_async_bulk(space_cluster, space_global, s + 128, in + 128, 512, &bar);
    }
    while (!mbarrier_try_wait_parity(&bar, 0)) {
    }
    out[ME] = s[threadIdx.x] - s[255 - threadIdx.x];
}

KERNEL stored_matrices(uint32_t* out, const uint32_t* in) {  // stmatrix in all sizes; one warp
    __shared__ alignas(16) uint32_t s[3][32 * 4];
    const uint32_t at = shared_address(&s[0][threadIdx.x * 4]);
    for (int i = 0; i < 12; ++i) s[i / 4][threadIdx.x * 4 + i % 4] = 0;
    __syncwarp();
    const uint32_t* a = in + threadIdx.x * 4;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a[0]), "r"(a[1]), "r"(a[2]),
                 "r"(a[3])
                 : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(at + 512), "r"(a[0]), "r"(a[1])
                 : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared::cta.b16 [%0], {%1};" ::"r"(at + 1024), "r"(a[3]) : "memory");
    __syncwarp();
    for (int i = 0; i < 12; ++i) out[i * 32 + threadIdx.x] = s[i / 4][i % 4 * 32 + threadIdx.x];
}

KERNEL __cluster_dims__(1, 1, 1) cluster_of_one(int* out, const int* in) {
    __shared__ int s[128];
    const auto cluster = cg::this_cluster();
    s[threadIdx.x] = in[ME];
    cluster.sync();
    const int* there = cluster.map_shared_rank(s, 0);
    out[ME] = there[127 - threadIdx.x] + cluster.num_blocks() * 1000 + cluster.block_rank();
    cluster.sync();
}

KERNEL __cluster_dims__(2, 1, 1) cluster_of_two(int* out, const int* in) { out[ME] = in[ME]; }

KERNEL dependent_launch(int* out, const int* in) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    const int x = in[ME];
    asm volatile("griddepcontrol.launch_dependents;");
    out[ME] = x * 3;
}

KERNEL with_a_tensor_map(int* out, const int* in) {  // which `in` is not
    __shared__ alignas(128) int s[64];
    __shared__ uint64_t bar;
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];" ::"r"(
                     shared_address(s)),
                 "l"(in), "r"(0), "r"(shared_address(&bar))
                 : "memory");
    out[ME] = s[threadIdx.x % 64];
}
