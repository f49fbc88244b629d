// Stream-K whose blocks add up a divided tile together.
//
// In include/stream_k.cuh the block that begins a tile adds what others have left of it, one part after the other, so
// that few may share one. A problem of ten tiles and a long k wants all blocks on these ten. Here each block that shares a
// tile leaves its part in the workspace, waits until all parts are there, and finishes an equal piece of the tile:
//
//     block 0   steps 0 .. 9      its sums --> workspace      waits      adds up and stores elements   0 .. 1/3
//     block 1   steps 10 .. 19    its sums --> workspace      waits      adds up and stores elements 1/3 .. 2/3
//     block 2   steps 20 .. 29    its sums --> workspace      waits      adds up and stores elements 2/3 .. 1
//
// Parts are added in the order of k: the same problem on the same GPU gives the same bits. All blocks must run at a time,
// for they wait for each other.
#pragma once

#include <cstdint>

#include "include/epilogue.cuh"

// cp.async.cg.shared.global: copy 16 bytes past L1 and the registers; zeros, and nothing is read, where not `inside`.
__device__ __forceinline__ void copy_16(uint32_t to_shared, const void* from_global, bool inside) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(to_shared), "l"(from_global), "r"(inside ? 16 : 0)
                 : "memory");
}

// C = product + beta * C for the first `count` of four floats, with one access each way where all count and `wide`: c is
// 16-byte aligned then.
__device__ __forceinline__ void update_row(float* c, const float4& product, int count, bool wide, float beta) {
    const float four[] = {product.x, product.y, product.z, product.w};
    if (wide && count >= 4) return update_c4(c, 1.0f, four, beta);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < count) update_c(&c[i], 1.0f, four[i], beta);
    }
}

// a / b for quotients below 2^20, in a few instructions: a kernel of some microseconds waits for each line of its code.
__device__ __forceinline__ int over(int a, int b) {
    const int quotient = static_cast<int>(__fdividef(static_cast<float>(a), static_cast<float>(b)));
    const int rest = a - quotient * b;
    return quotient + (rest >= b) - (rest < 0);
}

// How the tiles are divided: whole ones in turn, then an equal stretch of the steps over k of those that are left, fewer
// than there are blocks, each in at most PARTS parts. Stretches are counted in grains of LEAST steps, or of more, so that a tile has at most MOST of them
// and all products fit 32 bits. Adding up costs about FIXUP steps' time: where dividing saves less, tiles stay whole.
template <int FIXUP, int LEAST, int PARTS>
struct Division {
    static constexpr int MOST = 1024;

    int blocks, tiles, steps;  // steps: over k, of each tile
    int grain, grains;         // steps of a grain; grains of a tile
    int whole, sharing;        // tiles that are not divided; blocks that divide the others

    __device__ __forceinline__ Division(int blocks, int tiles, int steps)
        : blocks(blocks), tiles(tiles), steps(steps), whole(tiles), sharing(1) {
        grain = max(LEAST, (steps + MOST - 1) / MOST);
        grains = over(steps + grain - 1, grain);
        const int left = tiles - over(tiles, blocks) * blocks;
        if (left == 0 || steps <= FIXUP) return;
        const int most = min(blocks, left * min(grains, PARTS));
        // Stretches that end where tiles do leave no block with parts of two of them.
        const int even = over(most, left) * left;
        const int takers = even > left && 4 * even >= 3 * most ? even : most;
        const int longest = over(left * grains + takers - 1, takers) * grain;
        if (steps - longest > FIXUP) {
            whole = tiles - left;
            sharing = takers;
        }
    }

    // Where the stretch of a block begins: a grain, counted over all divided tiles.
    __device__ __forceinline__ int begin(int block) const {
        return over((tiles - whole) * grains * min(block, sharing), sharing);
    }

    // The block whose stretch has that grain.
    __device__ __forceinline__ int block_of(int at) const {
        return over((at + 1) * sharing - 1, (tiles - whole) * grains);
    }

    // A divided tile's parts: those of `count` blocks from `block` on. That block's stretch may have begun in the tile
    // before; then this is its second part.
    struct Shared {
        static constexpr int MOST = PARTS;
        int number;  // of the divided tile
        int block, count;
        bool second;
    };

    __device__ __forceinline__ Shared shared(int number) const {
        const int at = number * grains;
        const int block = block_of(at);
        return {number, block, block_of(at + grains - 1) - block + 1, begin(block) < at};
    }

    // work(tile, first step, the step after the last) for all that is block `mine`'s to multiply.
    template <typename Work>
    __device__ __forceinline__ void for_each(int mine, Work work) const {
        int at = 0, end = 0;
        if (whole < tiles) at = begin(mine), end = begin(mine + 1);
        for (int next = mine; next < whole || at < end;) {
            int tile = next, first = 0, last = steps;
            if (next < whole) {
                next += blocks;
            } else {
                tile = over(at, grains);
                const int to = min((tile + 1) * grains, end);
                first = (at - tile * grains) * grain;
                last = min((to - tile * grains) * grain, steps);
                tile += whole;
                at = to;
            }
            work(tile, first, last);
        }
    }

    // work(Shared) for each divided tile of which block `mine` has a part.
    template <typename Work>
    __device__ __forceinline__ void for_each_shared(int mine, Work work) const {
        if (whole == tiles) return;
        const int at = begin(mine), end = begin(mine + 1);
        if (at == end) return;
        const int last = over(end - 1, grains);
        for (int number = over(at, grains); number <= last; ++number) work(shared(number));
    }
};

// What blocks leave of a tile for each other: each of THREADS threads its SUMS sums as they lie, four at a time. RANKS
// blocks with as many tiles make one that `Division` counts.
template <int THREADS, int SUMS, int RANKS = 1>
struct Parts {
    static constexpr int FOURS = THREADS * SUMS / 4;

    float4* sums;        // two parts a block
    unsigned* arrivals;  // RANKS for each divided tile; zero before and after
    int thread;          // of these THREADS, which meet at named barrier `barrier`
    int barrier;

    static __device__ __forceinline__ int mine() { return blockIdx.x / RANKS; }
    static __device__ __forceinline__ int rank() { return blockIdx.x % RANKS; }

    __device__ __forceinline__ void meet() const {
        asm volatile("bar.sync %0, %1;" : : "r"(barrier), "n"(THREADS) : "memory");
    }

    __device__ __forceinline__ float4* of(int block, bool second) const {
        return sums + static_cast<int64_t>((block * RANKS + rank()) * 2 + second) * FOURS;
    }

    // Leaves alpha * sum of a tile. Scaled, they lie in registers of their own: those of the sums stay where multiply-adds
    // want them.
    template <typename Shared, int N>
    __device__ __forceinline__ void put(const float (&sum)[N], float alpha, const Shared& tile) const {
        static_assert(N == SUMS);
        float4* to = of(mine(), tile.second && tile.block == mine()) + thread;
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            __stcg(&to[i / 4 * THREADS],
                   make_float4(alpha * sum[i], alpha * sum[i + 1], alpha * sum[i + 2], alpha * sum[i + 3]));
        }
        meet();
        if (thread == 0) {  // releases what all of them wrote before they met
            unsigned* arrived = &arrivals[tile.number * RANKS + rank()];
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(arrived) : "memory");
        }
    }

    // Waits for all parts of a tile and adds up this block's piece: store(four, thread, sum) for each group `four` of four
    // neighbouring sums of a thread.
    template <typename Shared, typename Store>
    __device__ __forceinline__ void add_up(const Shared& tile, Store store) const {
        unsigned* arrived = &arrivals[tile.number * RANKS + rank()];
        if (thread == 0) {
            unsigned count;
            do {
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(arrived) : "memory");
            } while (count < tile.count);
        }
        meet();
        const int place = mine() - tile.block;
        const int end = over((place + 1) * FOURS, tile.count);
        const float4* first = of(tile.block, tile.second);
        const float4* others = of(tile.block + 1, false);
#pragma unroll 1
        for (int at = over(place * FOURS, tile.count) + thread; at < end; at += THREADS) {
            float4 sum = __ldcg(&first[at]);
#pragma unroll (Shared::MOST > 32 ? 16 : 8)
            for (int part = 0; part < tile.count - 1; ++part) {
                const float4 more = __ldcg(&others[part * (2 * RANKS * FOURS) + at]);
                sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
            }
            store(at / THREADS, at % THREADS, sum);
        }
        meet();
        if (thread == 0) {  // each arrives again once it has read; the last one leaves zero
            if (atomicAdd(arrived, 1) == 2 * tile.count - 1) *arrived = 0;
        }
    }
};
