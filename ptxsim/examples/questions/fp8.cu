// 1 * 1 and 31 times 2^-7 * 2^-7, added up by a tensor core: 1 + 31 * 2^-14 = 1.0018920898...
#include <cstdio>
__global__ void sum() {
    __shared__ alignas(128) unsigned char a[2048], b[2048];  // rows of 16 bytes: k from 0 to 15, then from 16 to 31
    for (int i = threadIdx.x; i < 2048; i += 128) a[i] = b[i] = i < 1024 && i % 16 == 0 ? 0x38 : 0x04;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    unsigned long long strides = 1024ull / 16 << 16 | 128ull / 16 << 32, from_a = strides | __cvta_generic_to_shared(a) >> 4;
    unsigned long long from_b = strides | __cvta_generic_to_shared(b) >> 4;
    float d[4] = {};
    asm volatile("{ .reg .pred p; setp.ne.u32 p, 0, 0; wgmma.fence.sync.aligned;"
                 "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, p, 1, 1;"
                 "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(from_a), "l"(from_b));
    if (threadIdx.x == 0) printf("%.10f\n", d[0]);
}
