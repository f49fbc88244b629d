// What is permitted while a stream is captured, in global and relaxed mode, for streams that wait for the default one and
// others that do not: the error of a call, and of cudaStreamEndCapture. Numbers as an H200 gives them (driver 580).
#include <cstdio>
__global__ void add(int* x) { atomicAdd(x, 1); }
void CUDART_CB nothing(void*) {}
void CUDART_CB called(cudaStream_t, cudaError_t, void*) {}

int *x, *y;
cudaStream_t s, t, u;
cudaEvent_t e, f, outside;

template <typename Call>
void tried(const char* name, Call call) {
    printf("%s", name);
    for (auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed})
        for (unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
            cudaGraph_t g;
            cudaStreamCreateWithFlags(&s, flags);
            cudaStreamCreateWithFlags(&t, flags);
            cudaEventCreate(&e);
            cudaEventCreate(&f);
            cudaStreamBeginCapture(s, mode);
            add<<<1, 1, 0, s>>>(x);
            cudaError_t code = call();
            cudaGetLastError();
            printf(" %d/%d", code, cudaStreamEndCapture(s, &g));
            cudaGetLastError();
            cudaStreamDestroy(s);
            cudaStreamDestroy(t);
        }
    printf("\n");
}
void fork() {
    cudaEventRecord(e, s);
    cudaStreamWaitEvent(t, e, 0);
}
void join() {
    cudaEventRecord(f, t);
    cudaStreamWaitEvent(s, f, 0);
}
cudaError_t launch(cudaStream_t in) {
    add<<<1, 1, 0, in>>>(x);
    return cudaGetLastError();
}

int main() {
    int host;
    void* p;
    cudaGraph_t g;
    cudaMalloc(&x, 4);
    cudaMalloc(&y, 4);
    cudaMemset(x, 0, 4);
    cudaStreamCreate(&u);
    cudaEventCreate(&outside);
    cudaEventRecord(outside, u);
    cudaDeviceSynchronize();
    tried("launch", [] { return launch(s); });
    tried("legacy-launch", [] { return launch(0); });
    tried("legacy-event", [] { return cudaEventRecord(f, 0); });
    tried("legacy-waits", [] { cudaEventRecord(e, s); return cudaStreamWaitEvent(0, e, 0); });
    tried("copy", [&] { return cudaMemcpy(&host, x, 4, cudaMemcpyDeviceToHost); });
    tried("set", [] { return cudaMemset(y, 0, 4); });
    tried("malloc", [&] { return cudaMalloc(&p, 4); });
    tried("free", [] { return cudaFree(nullptr); });
    tried("device", [] { return cudaDeviceSynchronize(); });
    tried("stream", [] { return cudaStreamSynchronize(s); });
    tried("query", [] { return cudaStreamQuery(s); });
    tried("other-stream", [] { return cudaStreamSynchronize(u); });
    tried("legacy-stream", [] { return cudaStreamSynchronize(0); });
    tried("event", [] { cudaEventRecord(e, s); return cudaEventSynchronize(e); });
    tried("other-event", [] { return cudaEventQuery(outside); });
    tried("callback", [] { return cudaStreamAddCallback(s, called, nullptr, 0); });
    tried("host-function", [] { return cudaLaunchHostFunc(s, nothing, nullptr); });
    tried("isolation", [] { return cudaStreamWaitEvent(s, outside, 0); });
    tried("unrecorded", [] { return cudaStreamWaitEvent(s, f, 0); });
    tried("unjoined", [] { fork(); return launch(t); });
    tried("fork-alone", [] { fork(); return cudaSuccess; });
    tried("joined", [] { fork(); launch(t); join(); return cudaSuccess; });
    tried("joined-too-early", [] { fork(); launch(t); join(); return launch(t); });
    tried("ended-elsewhere", [&] { fork(); return cudaStreamEndCapture(t, &g); });
    tried("begun-twice", [] { return cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal); });
    tried("merged", [&] {
        cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed);
        launch(t);
        cudaEventRecord(e, t);
        cudaError_t code = cudaStreamWaitEvent(s, e, 0);
        cudaStreamEndCapture(t, &g);
        return code;
    });
    tried("after-an-error", [] { cudaStreamSynchronize(s); cudaGetLastError(); return launch(s); });
    tried("exchanged", [&] {
        auto mode = cudaStreamCaptureModeRelaxed;
        cudaThreadExchangeStreamCaptureMode(&mode);
        cudaError_t code = cudaMalloc(&p, 4);
        cudaThreadExchangeStreamCaptureMode(&mode);
        return code;
    });
    tried("free-of-others", [&] { return cudaFreeAsync(y, s); });

    // the memory of a graph: allocated again at each launch, at the same address
    cudaGraphExec_t left, freed;
    cudaGraphNode_t nodes[2];
    int* q;
    cudaStreamBeginCapture(u, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&q, 4, u);
    cudaMemsetAsync(q, 0, 4, u);
    add<<<1, 1, 0, u>>>(q);
    cudaMemcpyAsync(&host, q, 4, cudaMemcpyDeviceToHost, u);
    cudaStreamEndCapture(u, &g);
    cudaGraphInstantiate(&left, g, 0);
    printf("graph %d", cudaGraphLaunch(left, u));
    printf(" %d %d", cudaGraphLaunch(left, u), cudaFreeAsync(q, u));
    printf(" %d %d", cudaGraphLaunch(left, u), cudaStreamSynchronize(u));
    cudaGraphCreate(&g, 0);
    cudaMemAllocNodeParams memory = {};
    memory.poolProps.allocType = cudaMemAllocationTypePinned, memory.poolProps.location.type = cudaMemLocationTypeDevice;
    memory.bytesize = 4;
    cudaGraphAddMemAllocNode(&nodes[0], g, nullptr, 0, &memory);
    cudaGraphAddMemFreeNode(&nodes[1], g, nodes, 1, memory.dptr);
    cudaGraphInstantiate(&freed, g, 0);
    for (int i = 0; i < 2; ++i) printf(" %d", cudaGraphLaunch(freed, u));
    printf(" %d %d\n", cudaFree(q), host);
    // such a graph has one executable graph at a time
    cudaGraphExec_t second;
    printf("instantiated %d", cudaGraphInstantiate(&second, g, 0));
    cudaGraphExecDestroy(freed);
    printf(" %d", cudaGraphInstantiate(&freed, g, 0));
    printf(" %d\n", cudaGraphLaunch(freed, u));
}
