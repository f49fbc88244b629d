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

struct Shape {
    __device__ virtual int sides() = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    int* held = new int(4);
    __device__ int sides() override { return *held; }
    __device__ ~Square() { delete held; }
};

__global__ void virtually(Shape** shape) { *shape = new Square; }
__global__ void count(Shape** shape, int* sums) { sums[0] = (*shape)->sides(); }
__global__ void destroy(Shape** shape) { delete *shape; }

int main(int arguments, char**) {
    Node** lists;
    int *sums, back[32];
    CHECK(cudaMalloc(&lists, 32 * sizeof(Node*)));
    CHECK(cudaMalloc(&sums, sizeof back));
    make<<<1, 32>>>(lists, 4);
    add<<<1, 32>>>(lists, sums);
    CHECK(cudaMemcpy(back, sums, sizeof back, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; ++i) EXPECT(back[i] == 4 * i + 6);
    release<<<1, 32>>>(lists);
    Shape** shape;
    CHECK(cudaMalloc(&shape, sizeof *shape));
    virtually<<<1, 1>>>(shape), count<<<1, 1>>>(shape, sums), destroy<<<1, 1>>>(shape);
    CHECK(cudaMemcpy(back, sums, sizeof back, cudaMemcpyDeviceToHost));
    EXPECT(back[0] == 4);
    if (arguments > 1) add<<<1, 32>>>(lists, sums);
    if (arguments > 2) release<<<1, 32>>>(lists);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
