// One thread arrives, the others wait: for the phase of PARITY. The first phase has parity 0.
#ifndef PARITY
#define PARITY 0
#endif
__global__ void handed_over(int* out, const int* in) {
    __shared__ int value;
    __shared__ alignas(8) unsigned long long bar;
    unsigned at = __cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
    __syncthreads();
    if (threadIdx.x == 0) {
        value = in[0];
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
    }
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra W; }" ::"r"(at), "r"(PARITY) : "memory");
    out[threadIdx.x] = value;
}
