// CUDA graphs: captured with a fork and a join, and made of nodes that are added in another order than they come.
#include <cstdio>
__global__ void scale(int* x, int by) { x[threadIdx.x] *= by; }
__global__ void plus(int* x, const int* y) { x[threadIdx.x] += y[threadIdx.x]; }
void CUDART_CB count(void* p) { ++*static_cast<int*>(p); }

int main() {
    int *x, *y, calls = 0, host[32], out[32];
    cudaMalloc(&x, 128);
    cudaMalloc(&y, 128);
    for (int i = 0; i < 32; ++i) host[i] = i;
    cudaStream_t s, t;
    cudaStreamCreate(&s);
    cudaStreamCreate(&t);
    cudaEvent_t fork, join;
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    cudaGraph_t captured;
    cudaGraphExec_t ready;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMemcpyAsync(x, host, 128, cudaMemcpyHostToDevice, s);
    cudaEventRecord(fork, s);
    cudaStreamWaitEvent(t, fork, 0);
    cudaMemsetAsync(y, 0, 128, t);
    scale<<<1, 32, 0, s>>>(x, 3);
    cudaEventRecord(join, t);
    cudaStreamWaitEvent(s, join, 0);
    plus<<<1, 32, 0, s>>>(y, x);
    cudaLaunchHostFunc(s, count, &calls);
    cudaStreamEndCapture(s, &captured);
    printf("%d calls while captured\n", calls);
    cudaGraphInstantiate(&ready, captured, 0);
    size_t nodes;
    cudaGraphGetNodes(captured, nullptr, &nodes);
    for (int i = 0; i < 2; ++i) cudaGraphLaunch(ready, s);
    cudaStreamSynchronize(s);
    cudaMemcpy(out, y, 128, cudaMemcpyDeviceToHost);
    printf("%d nodes, %d calls, %d\n", int(nodes), calls, out[31]);

    cudaGraph_t made;
    cudaGraphCreate(&made, 0);
    cudaGraphNode_t first, middle, last;
    int by = 5;
    void* arguments[] = {&x, &by};
    cudaKernelNodeParams kernel = {};
    kernel.func = (void*)scale, kernel.gridDim = 1, kernel.blockDim = 32, kernel.kernelParams = arguments;
    cudaGraphAddKernelNode(&middle, made, nullptr, 0, &kernel);
    cudaGraphAddMemcpyNode1D(&first, made, nullptr, 0, x, host, 128, cudaMemcpyHostToDevice);
    cudaGraphAddMemcpyNode1D(&last, made, &middle, 1, out, x, 128, cudaMemcpyDeviceToHost);
    cudaGraphAddDependencies(made, &first, &middle, nullptr, 1);
    cudaGraphExec_t other;
    cudaGraphInstantiate(&other, made, 0);
    cudaGraphLaunch(other, s);
    cudaStreamSynchronize(s);
    printf("%d\n", out[31]);
    by = 7;
    cudaGraphExecKernelNodeSetParams(other, middle, &kernel);
    cudaGraphLaunch(other, s);
    cudaStreamSynchronize(s);
    printf("%d, %s\n", out[31], cudaGetErrorString(cudaGetLastError()));
    cudaGraph_t twin;
    cudaGraphClone(&twin, made);
    cudaGraphDestroy(made);
    cudaGraphInstantiate(&other, twin, 0);
    cudaGraphLaunch(other, s);
    cudaStreamSynchronize(s);
    printf("clone: %d\n", out[31]);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    printf("%s\n", cudaGetErrorName(cudaStreamSynchronize(s)));
}
