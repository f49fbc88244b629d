// Tensor maps, bulk copies, mbarriers with transaction counts, clusters, setmaxnreg. `fault` leaves out or breaks a step.

#include <cuda.h>

#include <cstdint>

#define KERNEL extern "C" __global__ void
#define MAP const __grid_constant__ CUtensorMap

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ void init(uint64_t* bar, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}
__device__ void init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(uint64_t* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}
__device__ void arrive(uint64_t* bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ void arrive_at(uint64_t* bar, int rank) {  // in another block of the cluster
    asm volatile(
        "{ .reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(bar)),
        "r"(rank)
        : "memory");
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
__device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void wait_all() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ void load_2d(void* to, const CUtensorMap* map, int x, int y, uint64_t* bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(to)),
        "l"(map), "r"(x), "r"(y), "r"(shared_address(bar))
        : "memory");
}
__device__ void load_2d_multicast(void* to, const CUtensorMap* map, int x, int y, uint64_t* bar, uint16_t mask) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
        "%3}], [%4], %5;" ::"r"(shared_address(to)),
        "l"(map), "r"(x), "r"(y), "r"(shared_address(bar)), "h"(mask)
        : "memory");
}
__device__ void store_2d(const CUtensorMap* map, int x, int y, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y),
                 "r"(shared_address(from))
                 : "memory");
}

constexpr int MOST = 64 * 1024;
extern __shared__ __align__(1024) uint8_t shared[];

// What a box looks like in shared memory. One block.
template <int RANK>
__device__ void box_at(uint8_t* out, const CUtensorMap* map, int x, int y, int z, int bytes, int expected, int at) {
    __shared__ uint64_t bar;
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) shared[at + i] = 0xEE;
    if (threadIdx.x == 0) {
        init(&bar, 1);
        asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
    }
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&bar, expected);
        if (RANK == 1)
            asm volatile(
                "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(
                    shared_address(shared + at)),
                "l"(map), "r"(x), "r"(shared_address(&bar))
                : "memory");
        if (RANK == 2) load_2d(shared + at, map, x, y, &bar);
        if (RANK == 3)
            asm volatile(
                "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
                "{%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared + at)),
                "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&bar)), "l"(0ull)
                : "memory");
    }
    wait(&bar, 0);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = shared[at + i];
}
KERNEL box_1d(uint8_t* out, MAP map, int x, int y, int z, int bytes, int expected, int at) {
    box_at<1>(out, &map, x, y, z, bytes, expected, at);
}
KERNEL box_2d(uint8_t* out, MAP map, int x, int y, int z, int bytes, int expected, int at) {
    box_at<2>(out, &map, x, y, z, bytes, expected, at);
}
KERNEL box_3d(uint8_t* out, MAP map, int x, int y, int z, int bytes, int expected, int at) {
    box_at<3>(out, &map, x, y, z, bytes, expected, at);
}
KERNEL box_by_pointer(uint8_t* out, const CUtensorMap* map, int x, int y, int z, int bytes, int expected, int at) {
    box_at<2>(out, map, x, y, z, bytes, expected, at);
}

// A box out of shared memory: stored (rank 2 or 3) or added.
KERNEL put(const uint8_t* in, MAP map, int x, int y, int z, int bytes, int rank, int fault) {
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) shared[i] = in[i];
    if (fault != 1) proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t from = shared_address(shared);
        if (rank == 1)
            asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
                         "r"(x), "r"(y), "r"(from)
                         : "memory");
        if (rank == 2) store_2d(&map, x, y, shared);
        if (rank == 3)
            asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map), "r"(x),
                         "r"(y), "r"(z), "r"(from)
                         : "memory");
        commit();
        if (fault != 2 && fault != 4) wait_read();
        if (fault == 3) shared[0] = 1;  // after the wait: allowed
    }
    if (fault == 2) {
        __syncthreads();
        shared[threadIdx.x] = 1;
        if (threadIdx.x == 0) wait_read();
    }
}

// A box of which only some elements of shared memory are written before it is stored.
KERNEL put_part(const int* places, const uint16_t* values, int count, MAP map) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) reinterpret_cast<uint16_t*>(shared)[places[i]] = values[i];
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_2d(&map, 0, 0, shared);
        commit();
        wait_read();
    }
}

// A producer warp fills a ring of 64x64 boxes, two groups of consumers take them; C = sum over tiles of scaled elements.
KERNEL __launch_bounds__(384, 1) ring(float* out, MAP map, int tiles, int fault) {
    constexpr int STAGES = 3, ROWS = 64, BYTES = ROWS * 128;
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) init(&full[i], 1), init(&empty[i], fault == 5 ? 1 : 2);
        if (fault != 10) init_fence();
    }
    __syncthreads();
    const int group = threadIdx.x / 128;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            for (int i = 0; i < tiles; ++i) {
                const int slot = i % STAGES, turn = i / STAGES % 2;
                const int before = fault == 9 ? turn : turn ^ 1;
                if (fault != 6) wait(&empty[slot], before);
                expect(&full[slot], fault == 1 ? BYTES + 128 : fault == 2 ? BYTES - 128 : BYTES);
                if (fault != 4) load_2d(shared + slot * BYTES, &map, 0, i * ROWS, &full[slot]);
            }
        }
    } else {
        if (fault == 7)
            asm volatile("setmaxnreg.inc.sync.aligned.u32 248;");
        else
            asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        const int me = threadIdx.x % 128;
        float sum = 0;
        for (int i = 0; i < tiles; ++i) {
            const int slot = i % STAGES, turn = i / STAGES % 2;
            if (fault != 3) wait(&full[slot], turn);
            const float* tile = reinterpret_cast<const float*>(shared + slot * BYTES);
            for (int j = 0; j < ROWS * 32; j += 128) sum += tile[j + me] * static_cast<float>(i + group);
            if (fault == 8) {
                if (me == 0) arrive(&empty[slot]);  // before the other threads have read
            } else {
                asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
                if (me == 0) arrive(&empty[slot]);
            }
        }
        out[(group - 1) * 128 + me] = sum;
    }
}

// Two blocks of a cluster: each reads the other's shared memory.
KERNEL __cluster_dims__(2, 1, 1) swap(int* out, const int* in, int fault) {
    __shared__ int s[128];
    s[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    if (fault == 0 || fault == 3) cluster_sync();
    if (fault == 1) __syncthreads();
    const uint32_t other = cluster_rank() ^ 1;
    uint32_t there;
    int value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(&s[127 - threadIdx.x])), "r"(other));
    if (fault == 2)
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
    else
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
    out[blockIdx.x * 128 + threadIdx.x] = value;
    if (fault != 3) cluster_sync();
}

// Both blocks of a cluster load half of each tile and send it to both; a slot is free when both blocks are done with it.
KERNEL __cluster_dims__(2, 1, 1) __launch_bounds__(160) multicast(float* out, MAP map, int tiles, int fault) {
    constexpr int STAGES = 2, ROWS = 32, BYTES = ROWS * 128;
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) init(&full[i], 1), init(&empty[i], 2 * 128);
        init_fence();
    }
    if (fault == 1)
        __syncthreads();
    else
        cluster_sync();
    const int rank = cluster_rank();
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0) {
            for (int i = 0; i < tiles; ++i) {
                const int slot = i % STAGES, turn = i / STAGES % 2;
                wait(&empty[slot], turn ^ 1);
                expect(&full[slot], fault == 3 ? BYTES : 2 * BYTES);
                load_2d_multicast(shared + (slot * 2 + rank) * BYTES, &map, 0, (i * 2 + rank) * ROWS, &full[slot], 3);
            }
        }
    } else {
        const int me = threadIdx.x - 32;
        float sum = 0;
        for (int i = 0; i < tiles; ++i) {
            const int slot = i % STAGES, turn = i / STAGES % 2;
            wait(&full[slot], turn);
            const float* tile = reinterpret_cast<const float*>(shared + slot * 2 * BYTES);
            for (int j = 0; j < 2 * ROWS * 32; j += 128) sum += tile[j + me] * static_cast<float>(i + rank);
            for (int block = 0; block < 2; ++block)
                if (fault != 2 || block == rank) arrive_at(&empty[slot], block);
        }
        out[blockIdx.x * 128 + me] = sum;
    }
    cluster_sync();
}

// Stream-K's fix-up: all blocks but the first leave partial sums in a workspace and set a flag; the first adds them.
// Blocks wait for later ones, so they must run side by side.
KERNEL fix_up(float* out, const float* in, float* workspace, int* flags, int fault) {
    const int me = threadIdx.x, block = blockIdx.x, size = blockDim.x;
    if (block > 0) {
        for (int i = 0; i < 4; ++i) workspace[(block * 4 + i) * size + me] = in[(block * 4 + i) * size + me] * 2;
        if (fault != 1) __syncthreads();
        if (me == 0) {
            if (fault != 3) __threadfence();
            if (fault == 4)
                asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flags + block), "r"(1) : "memory");
            else if (fault != 5)
                atomicExch(flags + block, 1);
        }
        return;
    }
    float sums[4] = {in[me], in[size + me], in[2 * size + me], in[3 * size + me]};
    for (int other = 1; other < gridDim.x; ++other) {
        if (me == 0) {
            int seen = 0;
            while (!seen) asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flags + other) : "memory");
        }
        if (fault != 2) __syncthreads();
        for (int i = 0; i < 4; ++i) sums[i] += workspace[(other * 4 + i) * size + (me + 1) % size];
    }
    for (int i = 0; i < 4; ++i) out[i * size + me] = sums[i];
}

// The same between warps: its first lane signals what the warp wrote before __syncwarp.
KERNEL warp_flags(float* out, const float* in, float* workspace, int* flags, int fault) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    workspace[blockIdx.x * blockDim.x + threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x] + 1;
    if (fault != 1) __syncwarp();
    if (lane == 0) {
        __threadfence();
        atomicAdd(flags + warp, 1);
        while (atomicAdd(flags + warp, 0) < gridDim.x) {
        }
        __threadfence();
    }
    __syncwarp();
    float sum = 0;
    for (int other = 0; other < gridDim.x; ++other) sum += workspace[other * blockDim.x + warp * 32 + 31 - lane];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A copy that nobody waits for.
KERNEL not_waited(MAP map) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        init(&bar, 1);
        init_fence();
        expect(&bar, 16 * 64 * 2);
        load_2d(shared, &map, 0, 0, &bar);
    }
}

// Waiting for a wgmma is no waiting for a bulk store.
KERNEL store_and_multiply(MAP map, float* out, int fault) {
    for (int i = threadIdx.x; i < 4096; i += 128) shared[i] = 0;
    proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_2d(&map, 0, 0, shared);
        commit();
        if (fault == 0) wait_read();
    }
    const uint64_t matrix = (shared_address(shared) & 0x3FFFF) >> 4 | 8ull << 16 | 16ull << 32;
    float d[4];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 0, 1, 1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "l"(matrix)
        : "memory");
    out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
    __syncthreads();
    shared[threadIdx.x] = 1;
}

// A tile by a tensor map, `at` bytes into shared memory, read with the descriptor's own swizzle (1: 128 bytes, 2: 64, 3: 32,
// 0: none) and base offset.
KERNEL load_and_multiply(MAP map, float* out, int swizzle, int at, int base) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        init(&bar, 1);
        init_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&bar, 64 * 128);
        load_2d(shared + at, &map, 0, 0, &bar);
    }
    wait(&bar, 0);
    const uint64_t matrix = (shared_address(shared + at) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | uint64_t(base) << 49 |
                            uint64_t(swizzle) << 62;
    float d[4];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 0, 1, 1, 0, 0;\n"
        "wgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "l"(matrix)
        : "memory");
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}

// Where blocks are in their clusters.
KERNEL places(int* out) {
    uint32_t rank, x, y, size, clusters;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
    asm volatile("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(y));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(clusters));
    int* mine = out + (blockIdx.y * gridDim.x + blockIdx.x) * 5;
    mine[0] = rank, mine[1] = x, mine[2] = y, mine[3] = size, mine[4] = clusters;
}

// A bulk copy from one block's shared memory to the other's, which says when it has come.
KERNEL __cluster_dims__(2, 1, 1) hand_over(int* out, const int* in, int fault) {
    __shared__ alignas(128) int s[128];
    __shared__ uint64_t come, gone;
    if (threadIdx.x == 0) {
        init(&come, 1), init(&gone, 1);
        init_fence();
        expect(&come, sizeof(s));
    }
    if (cluster_rank() == 0) s[threadIdx.x] = in[threadIdx.x];
    proxy_fence();
    cluster_sync();
    if (cluster_rank() == 0) {
        if (threadIdx.x == 0)
            asm volatile(
                "{ .reg .b32 to, bar;\n"
                "mapa.shared::cluster.u32 to, %0, 1;\n"
                "mapa.shared::cluster.u32 bar, %1, 1;\n"
                "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [%0], %2, [bar]; }" ::"r"(
                    shared_address(s)),
                "r"(shared_address(&come)), "r"(int(sizeof(s)))
                : "memory");
        if (fault != 1) wait(&gone, 0);
        s[threadIdx.x] = 0;
    } else {
        wait(&come, 0);
        out[threadIdx.x] = s[127 - threadIdx.x];
        if (threadIdx.x == 0) arrive_at(&gone, 0);
    }
    cluster_sync();
}

// st.async: each thread sends four numbers to the other block, whose mbarrier says when all have come.
__device__ void send_four(void* to, int4 v, uint64_t* bar, int rank, int rank_of_bar) {
    asm volatile(
        "{ .reg .b32 to, bar;\n"
        "mapa.shared::cluster.u32 to, %0, %6;\n"
        "mapa.shared::cluster.u32 bar, %1, %7;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [to], {%2, %3, %4, %5}, [bar]; }" ::"r"(
            shared_address(to)),
        "r"(shared_address(bar)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(rank), "r"(rank_of_bar)
        : "memory");
}

KERNEL __cluster_dims__(2, 1, 1) exchange(int* out, const int* in, int fault) {
    __shared__ alignas(128) int4 s[128];
    __shared__ uint64_t come;
    const int other = cluster_rank() ^ 1, t = threadIdx.x;
    if (t == 0) {
        init(&come, 1);
        if (fault != 1) init_fence();
        if (fault == 2) arrive(&come);
        else expect(&come, fault == 3 ? sizeof(s) - 16 : sizeof(s));
    }
    __syncwarp();
    if (fault != 4) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    }
    const int* from = in + (blockIdx.x * 128 + t) * 4;
    int4* to = fault == 6 ? &s[in[1] << 16] : fault == 7 ? s + t / 2 : s + t;
    send_four(to, make_int4(from[0], from[1], from[2], from[3]), &come, other, fault == 5 ? other ^ 1 : other);
    if (fault == 10) s[t].x = 0;  // at the same place
    if (fault == 8 ? t == 0 : fault != 9 && fault != 11) wait(&come, 0);
    if (fault == 11) return;
    const int4 v = s[127 - t];
    int* at = out + (blockIdx.x * 128 + t) * 4;
    at[0] = v.x, at[1] = v.y, at[2] = v.z, at[3] = v.w;
}

// A fence lets a relaxed arrival order what came before it: here mbarriers that are made.
KERNEL __cluster_dims__(2, 1, 1) relaxed_arrival(int* out, int fault) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        init(&bar, 2);
        if (fault == 0) init_fence();
        if (fault == 2) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (threadIdx.x == 0)
        for (int block = 0; block < 2; ++block) arrive_at(&bar, block);
    wait(&bar, 0);
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    cluster_sync();
}

// A map of the device's own: its fields are set in shared memory, it is copied to global memory, and taken from there.
#define REPLACE(field, type, ...) asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], " __VA_ARGS__ : "memory")
KERNEL made_map(uint8_t* out, const uint16_t* tensor, uint8_t* map, int rows, int columns, int x, int y, int fault) {
    __shared__ alignas(128) uint8_t own[128];
    __shared__ uint64_t bar;
    for (int i = threadIdx.x; i < 128; i += 32) own[i] = 0;
    __syncwarp();
    const uint32_t at = shared_address(own);
    if (threadIdx.x == 0) {
        REPLACE("global_address", "b64", "%1;" ::"r"(at), "l"(tensor));
        REPLACE("rank", "b32", "%1;" ::"r"(at), "r"(1));
        REPLACE("box_dim", "b32", "0, %1;" ::"r"(at), "r"(64));
        REPLACE("box_dim", "b32", "1, %1;" ::"r"(at), "r"(16));
        REPLACE("global_dim", "b32", "0, %1;" ::"r"(at), "r"(columns));
        REPLACE("global_dim", "b32", "1, %1;" ::"r"(at), "r"(rows));
        REPLACE("global_stride", "b64", "0, %1;" ::"r"(at), "l"(uint64_t(fault == 1 ? 10 : columns * 2)));
        REPLACE("element_stride", "b32", "0, %1;" ::"r"(at), "r"(1));
        REPLACE("element_stride", "b32", "1, %1;" ::"r"(at), "r"(1));
        REPLACE("elemtype", "b32", "1;" ::"r"(at));
        REPLACE("interleave_layout", "b32", "0;" ::"r"(at));
        REPLACE("swizzle_mode", "b32", "3;" ::"r"(at));
        REPLACE("fill_mode", "b32", "0;" ::"r"(at));
        init(&bar, 1);
        init_fence();
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(map),
                 "r"(at)
                 : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
    if (threadIdx.x == 0) {
        expect(&bar, 2048);
        load_2d(shared, reinterpret_cast<CUtensorMap*>(map), x, y, &bar);
    }
    __syncwarp();
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 2048; i += 32) out[i] = shared[i];
}
// One field of the host's map changed.
KERNEL changed_map(uint8_t* out, MAP given, CUtensorMap* map, const uint16_t* other) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        *map = given;
        asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(other) : "memory");
        asm volatile("fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map)
                     : "memory");
        init(&bar, 1);
        init_fence();
        expect(&bar, 2048);
        load_2d(shared, map, 0, 0, &bar);
    }
    __syncwarp();
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 2048; i += 32) out[i] = shared[i];
}
