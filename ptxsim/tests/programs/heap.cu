// A list on the device's heap that one kernel makes, a second reads, and a third frees. With an argument, it is freed twice.
#include "check.h"

struct Node {
    int value;
    Node* next;
};

__global__ void make(Node** lists, int length) {
    Node* first = nullptr;
    for (int i = 0; i < length; ++i) {
        Node* node = new Node;
        node->value = threadIdx.x + i;
        node->next = first;
        first = node;
    }
    lists[threadIdx.x] = first;
}

__global__ void add(Node* const* lists, int* sums) {
    int sum = 0;
    for (const Node* node = lists[threadIdx.x]; node; node = node->next) sum += node->value;
    sums[threadIdx.x] = sum;
}

__global__ void release(Node** lists) {
    for (Node* node = lists[threadIdx.x]; node;) {
        Node* next = node->next;
        delete node;
        node = next;
    }
}

int main(int count, char**) {
    Node** lists;
    int *sums, back[32];
    CHECK(cudaMalloc(&lists, 32 * sizeof(Node*)));
    CHECK(cudaMalloc(&sums, sizeof back));
    make<<<1, 32>>>(lists, 4);
    add<<<1, 32>>>(lists, sums);
    CHECK(cudaMemcpy(back, sums, sizeof back, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; ++i) EXPECT(back[i] == 4 * i + 6);
    release<<<1, 32>>>(lists);
    if (count > 1) add<<<1, 32>>>(lists, sums);
    if (count > 2) release<<<1, 32>>>(lists);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
