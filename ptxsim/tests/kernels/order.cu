// What orders accesses and what does not: `form` 0 is right, the others are wrong, each for the reason beside it.
#include <cooperative_groups.h>
#include <mma.h>
#include <cstdint>
#define KERNEL extern "C" __global__ void
namespace cg = cooperative_groups;

__device__ __forceinline__ uint32_t shared(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void await_phase(uint64_t* bar, int parity) {
    asm volatile("{.reg .pred p; W%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W%=;}" ::"r"(shared(bar)),
                 "r"(parity) : "memory");
}

// -- flags in global memory: block `writer` hands 32 numbers to the others. The flag may be up from before

__device__ __forceinline__ void raise(int* flag, int form) {
    if (form == 3) asm volatile("st.release.cta.global.s32 [%0], 1;" ::"l"(flag) : "memory");       // of block scope
    else if (form == 4) asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");  // and no fence
    else atomicExch(flag, 1);
}
KERNEL hand_over(int* out, int* data, int* flag, int writer, int form) {
    const bool fences = form != 2 && form != 4 && form != 5 && form != 6;
    if (blockIdx.x == writer) {
        data[threadIdx.x] = threadIdx.x;
        if (form == 5) __threadfence_block();                      // a fence of block scope
        if (form == 6 && threadIdx.x == 0) __threadfence();        // thread 0 alone, before the others' writes reach it
        if (form == 2) asm volatile("fence.proxy.async;" ::: "memory");  // a fence, but of proxies
        if (fences && form != 7 && form != 3) __threadfence();
        if (form != 7) __syncthreads();
        if (form == 7) __threadfence(), __syncwarp();              // right: within the warp that is enough
        if (threadIdx.x == 0) raise(flag, form);
        if (form == 8) data[threadIdx.x] = 7;                      // once more after the release
    } else {
        if (threadIdx.x == 0 && form != 1) {
            if (form == 3) {
                int seen = 0;
                while (!seen) asm volatile("ld.acquire.cta.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
            } else if (form == 9) {
                atomicAdd(flag, 1);  // without a look at what it was
            } else {
                while (atomicAdd(flag, 0) == 0) {}
            }
            if (form != 10) __threadfence();
        }
        __syncthreads();
        out[blockIdx.x * 32 + threadIdx.x] = data[threadIdx.x];    // form 1 does not wait
    }
}

// all but the last block count up, which waits for all: a count that is there from before ends the wait too early
KERNEL count_up(int* out, int* data, int* count, int) {
    if (blockIdx.x < gridDim.x - 1) {
        data[blockIdx.x * 32 + threadIdx.x] = threadIdx.x;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(count, 1);
    } else {
        if (threadIdx.x == 0) while (*(volatile int*)count < int(gridDim.x) - 1) {}
        __threadfence();
        __syncthreads();
        for (int b = 0; b < gridDim.x - 1; ++b) out[b * 32 + threadIdx.x] = data[b * 32 + threadIdx.x];
    }
}

// block 0 to block 1 to block 2; form 1: the block between does not wait
KERNEL chain(int* out, int* data, int* flags, int form) {
    const int b = blockIdx.x;
    if (b == 0) data[threadIdx.x] = threadIdx.x;
    if (b > 0 && !(form == 1 && b == 1) && threadIdx.x == 0) while (atomicAdd(&flags[b - 1], 0) == 0) {}
    __syncthreads();
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(&flags[b], 1);
    if (b == 2) out[threadIdx.x] = data[threadIdx.x];
}

// a lock around a sum; form 1: it is given back without a fence
KERNEL lock(int* sum, int*, int* held, int form) {
    if (threadIdx.x) return;
    while (atomicCAS(held, 0, 1) != 0) {}
    __threadfence();
    *sum += blockIdx.x;
    if (form == 0) __threadfence();
    atomicExch(held, 0);
}

// grid barriers: owners write, neighbours read; form 1: without the second barrier of a step
KERNEL stencil(int* p, int* q, int*, int form) {
    cg::grid_group grid = cg::this_grid();
    const int n = grid.size(), i = grid.thread_rank();
    for (int step = 0; step < 3; ++step) {
        p[i] = p[i] + 1;
        grid.sync();
        q[i] = p[(i + 1) % n] + p[(i + n - 1) % n];
        if (form == 0) grid.sync();
    }
}

// a barrier of the grid, or of the cluster, that block 1 has left
KERNEL __cluster_dims__(2, 1, 1) left(int* out, int*, int*, int form) {
    if (form && blockIdx.x == 1) return;
    if (form == 2) cg::this_grid().sync();
    cg::this_cluster().sync();
}

// both blocks read; then the owner reads and writes; form 1: without a barrier
KERNEL many_readers(int* p, int* out, int*, int form) {
    cg::grid_group grid = cg::this_grid();
    if (threadIdx.x == 0) out[blockIdx.x] = p[0];
    if (form == 0) grid.sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) p[0] = p[0] + 1;
}

// -- barriers of a part of a block: 96 threads, of which the first 64 pass one; form 1: a third warp reads, too;
// 2, 3: they store once more after that barrier, or after one of the block

KERNEL named(int* out, const int* in, int*, int form) {
    __shared__ int s[64];
    if (threadIdx.x < 64) {
        s[threadIdx.x] = in[threadIdx.x];
        asm volatile("bar.sync 1, 64;" ::: "memory");
        if (form == 2) s[threadIdx.x] = 1;
        out[threadIdx.x] = s[63 - threadIdx.x];
    }
    if (form == 1 && threadIdx.x >= 64) asm volatile("bar.sync 2, 32;" ::: "memory");
    if (form == 0 || form == 3) __syncthreads();
    if (form == 3 && threadIdx.x < 64) s[threadIdx.x] = 1;
    if (threadIdx.x >= 64 && form != 2) out[threadIdx.x] = s[threadIdx.x - 64];
    if (form == 3) __syncwarp();
}

// warp 0 produces and does not wait; form 1: the consumers' barrier is another one
KERNEL producer(int* out, const int* in, int*, int form) {
    __shared__ int s[32];
    if (threadIdx.x < 32) {
        s[threadIdx.x] = in[threadIdx.x];
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        if (form == 1) asm volatile("bar.sync 3, 32;" ::: "memory");
    } else if (threadIdx.x < 64) {
        if (form == 0) asm volatile("bar.sync 1, 64;" ::: "memory");
        else asm volatile("bar.sync 2, 32;" ::: "memory");
        out[threadIdx.x - 32] = s[63 - threadIdx.x];
    }
}

// half warps, each with a barrier of its own; forms 1 and 2: without another after a second store
KERNEL half_warps(int* out, const int* in, int*, int form) {
    __shared__ int s[32];
    const unsigned mask = threadIdx.x < 16 ? 0xffff : 0xffff0000;
    if (threadIdx.x >= 32) return;
    s[threadIdx.x] = in[threadIdx.x];
    __syncwarp(mask);
    out[threadIdx.x] = s[threadIdx.x ^ 15];
    if (form == 2) __threadfence_block();
    if (form) __syncwarp(mask), s[threadIdx.x] = 1, out[threadIdx.x] += s[threadIdx.x ^ 15];
}

// a flag in shared memory between warps; form 1: without a fence before it; 2: of the wrong warp; 3: without one after
KERNEL shared_flag(int* out, const int* in, int*, int form) {
    __shared__ int s[32];
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] = in[threadIdx.x];
        if (form != 1) __threadfence_block();
        __syncwarp();
        if (threadIdx.x == 0) flag = 1;
    } else if (threadIdx.x < 64) {
        if (form != 2) while (flag == 0) {}
        if (form != 3) __threadfence_block();
        __syncwarp();
        out[threadIdx.x - 32] = s[63 - threadIdx.x];
    }
}

// -- arrivals at an mbarrier: form 1 is relaxed; 2: relaxed, and right, for a fence comes before; 3: nobody waits

KERNEL arrivals(int* out, const int* in, int*, int form) {
    __shared__ int s[32];
    __shared__ __align__(8) uint64_t bar;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(shared(&bar)));
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] = in[threadIdx.x];
        if (form == 2) __threadfence_block();
        if (form == 1 || form == 2)
            asm volatile("{.reg .b64 t; mbarrier.arrive.relaxed.cta.shared::cta.b64 t, [%0];}" ::"r"(shared(&bar)) : "memory");
        else
            asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" ::"r"(shared(&bar)) : "memory");
    } else if (threadIdx.x < 64) {
        if (form != 3) await_phase(&bar, 0);
        out[threadIdx.x - 32] = s[63 - threadIdx.x];
    }
}

// the cluster's barrier; form 1: relaxed; 2: relaxed, after a fence: right
KERNEL __cluster_dims__(2, 1, 1) neighbours(int* out, const int* in, int*, int form) {
    __shared__ int s[32];
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x < 32) s[threadIdx.x] = in[threadIdx.x];
    if (form == 2) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    if (form) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    else asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x < 32) out[blockIdx.x * 32 + threadIdx.x] = cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[31 - threadIdx.x];
    cluster.sync();
}

// shared memory of the other block: form 1 without a barrier of the cluster before; 2: relaxed, which says that it runs
KERNEL __cluster_dims__(2, 1, 1) peer(int* out, const int* in, int*, int form) {
    __shared__ int s[32];
    cg::cluster_group cluster = cg::this_cluster();
    if (form == 0) cluster.sync();
    if (form == 2) asm volatile("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x < 32) cluster.map_shared_rank(s, cluster.block_rank() ^ 1)[threadIdx.x] = in[threadIdx.x];
    cluster.sync();
    if (threadIdx.x < 32) out[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
}

// -- cp.async: what has landed is written. Form 1: odd threads write at once; 2: the group
// is committed after the wait; 3: threads read what others' copies brought, with a barrier only before the wait

KERNEL landed(int* out, const int* in, int*, int form) {
    __shared__ int s[32];
    if (threadIdx.x >= 32) return;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared(&s[threadIdx.x])), "l"(in + threadIdx.x) : "memory");
    if (form != 2) asm volatile("cp.async.commit_group;" ::: "memory");
    if (form == 3) __syncwarp();
    if (form == 1 && threadIdx.x % 2) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        s[threadIdx.x] += 1;
    } else {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    if (form == 2) asm volatile("cp.async.commit_group;" ::: "memory");
    if (form != 1 && form != 3) __syncwarp();
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}

// copies of the whole block, in two steps; form 1: each group is committed after the wait that is meant for it
KERNEL staged(int* out, const int* in, int*, int form) {
    __shared__ int s[2][96];
    for (int step = 0; step < 2; ++step) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared(&s[step][threadIdx.x])), "l"(in + threadIdx.x) : "memory");
        if (form == 0) asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        if (form == 1) asm volatile("cp.async.commit_group;" ::: "memory");
        __syncthreads();
        out[threadIdx.x] += s[step][95 - threadIdx.x];
    }
}

// a warp stores a tile of floats, and all read it by 16 bytes; form 1: without a barrier
KERNEL tile(int4* out, int*, int*, int form) {
    __shared__ __align__(32) int4 s[64];
    if (threadIdx.x < 32) {
        nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;
        nvcuda::wmma::fill_fragment(c, 3.0f);
        nvcuda::wmma::store_matrix_sync(reinterpret_cast<float*>(s), c, 16, nvcuda::wmma::mem_row_major);
    }
    if (form == 0) __syncthreads();
    if (threadIdx.x >= 32) out[threadIdx.x - 32] = s[threadIdx.x - 32];
}

// matrices of a warp: what its lanes store and read by ldmatrix, stmatrix and wmma. Form n is without the nth barrier
KERNEL fragments(int4* out, int*, int*, int form) {
    __shared__ __align__(128) int4 s[32];
    const int lane = threadIdx.x;
    short* words = reinterpret_cast<short*>(s);
    half* halves = reinterpret_cast<half*>(s);
    uint32_t a, b, c, d;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> f;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, half> sums;
    s[lane] = make_int4(lane, lane, lane, lane);
    if (form != 1) __syncwarp();
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(shared(s + lane)) : "memory");
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%4], {%0,%1,%2,%3};" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(shared(s + lane)) : "memory");
    if (form != 2) __syncwarp();
    out[lane] = s[lane];
    __syncthreads();
    for (int i = 0; i < 256; i += 32) words[i + lane] = i;
    if (form != 3) __syncwarp();
    nvcuda::wmma::load_matrix_sync(f, halves, 16);
    for (int i = 0; i < sums.num_elements; ++i) sums.x[i] = f.x[i];
    __syncthreads();
    nvcuda::wmma::store_matrix_sync(halves, sums, 16, nvcuda::wmma::mem_row_major);
    if (form != 4) __syncwarp();
    for (int i = 0; i < 256; i += 32) out[lane].x += words[i + lane];
}

// -- the asynchronous proxy and global memory: a block writes a row, and a bulk copy fetches it
// Form 1: no fence; 2: the fence comes after the copy; 3: right, as the thread that copies has the fence; 4: no barrier

KERNEL fetch(int* out, int* row, int*, int form) {
    __shared__ alignas(128) int t[96];
    __shared__ __align__(8) uint64_t bar;
    row[threadIdx.x] = threadIdx.x;
    if (form == 0) asm volatile("fence.proxy.async;" ::: "memory");
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(&bar)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (form != 4) __syncthreads();
    if (threadIdx.x == 0) {
        if (form == 3 || form == 4) asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 384;" ::"r"(shared(&bar)) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 384, [%2];" ::"r"(shared(t)),
                     "l"(row), "r"(shared(&bar)) : "memory");
    }
    if (form == 2) asm volatile("fence.proxy.async;" ::: "memory");
    if (form == 4) __syncthreads();
    await_phase(&bar, 0);
    out[threadIdx.x] = t[threadIdx.x];
}

// a bulk store out of shared memory, for which a thread waits before it raises a flag for another block. Form 1: with .read,
// which waits for the source only; 2: the thread itself reads after that; 3: right, it overwrites the source
KERNEL bulk_stored(int* out, int* data, int* flag, int form) {
    __shared__ alignas(128) int t[32];
    t[threadIdx.x] = threadIdx.x;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncwarp();
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" ::"l"(data), "r"(shared(t)) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (form) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        else asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        if (form == 2) out[3] = data[3];
        if (form == 3) t[3] = 4;
        asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");
    } else if (form < 2) {
        int seen = 0;
        while (!seen) asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        out[0] = data[5];
    }
}

// -- a tensor map that thread 0 changes in global memory. Form 1: right, copied from shared memory by what is a release
// itself; 2: the same without the acquire

KERNEL retarget(int* out, void* map, const int* other, int form) {
    __shared__ alignas(1024) int t[32 * 32];
    __shared__ alignas(128) char copy[128];
    __shared__ __align__(8) uint64_t bar;
    if (threadIdx.x < 32 && form) reinterpret_cast<int*>(copy)[threadIdx.x] = reinterpret_cast<const int*>(map)[threadIdx.x];
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(&bar)));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        if (form == 0) asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(other) : "memory");
        if (form == 0) asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    }
    __syncthreads();
    if (form && threadIdx.x < 32) {
        if (threadIdx.x == 0) asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(shared(copy)), "l"(other) : "memory");
        __syncwarp();
        asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(map), "r"(shared(copy)) : "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (form != 2)
            asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" ::"r"(shared(&bar)) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %3}], [%2];" ::"r"(
                         shared(t)), "l"(map), "r"(shared(&bar)), "r"(0) : "memory");
    }
    await_phase(&bar, 0);
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) out[i] = t[i];
}

// -- three wgmma in groups of their own. Form 1 waits for all but four, of which there are but three; 2: for all but two

KERNEL three_groups(float* out, int*, int*, int form) {
    __shared__ alignas(1024) uint64_t s[2048];
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) s[i] = 0;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    const uint64_t place = (shared(s) & 0x3FFFF) >> 4 | uint64_t(8) << 16 | uint64_t(16) << 32;
    float d[3][4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < 3; ++i) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;"
                     : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3]) : "l"(place));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    if (form == 0) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (form == 1) asm volatile("wgmma.wait_group.sync.aligned 4;" ::: "memory");
    if (form == 2) asm volatile("wgmma.wait_group.sync.aligned 2;" ::: "memory");
    out[threadIdx.x] = d[0][0];
    if (form) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    out[threadIdx.x] += d[1][0] + d[2][0];
}

// -- the read-only cache; form 1: what the thread itself wrote; 2: what another did, though a barrier lies between

KERNEL read_only(int* out, int* in, int*, int form) {
    if (form) in[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = __ldg(&in[form == 2 ? threadIdx.x ^ 1 : threadIdx.x]);
}
KERNEL fetched(int* out, int* in, cudaTextureObject_t x, int form) {
    if (form) in[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tex1Dfetch<int>(x, form == 2 ? threadIdx.x ^ 1 : threadIdx.x);
}

// -- threads that have exited are not waited for

KERNEL exited(int* out, const int* in, int*, int n) {
    __shared__ int s[96];
    if (threadIdx.x >= n) return;
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[n - 1 - threadIdx.x];
}

// -- a shuffle; form 1: lane 8 and the next take values from outside of the mask

KERNEL shuffle(int* out, int*, int*, int form) {
    int v = threadIdx.x;
    if (threadIdx.x < 16) v = __shfl_down_sync(0xffff, v, 8, form == 1 ? 32 : 16);
    out[threadIdx.x] = v;
}
