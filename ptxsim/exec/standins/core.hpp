// What the stand-ins for libcuda, libcudart and libcublas share: device memory, modules, the line to the emulator.
// It lives in libcuda.so.1; the others link to that. Functions give CUresult values, which cudaError_t shares.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define PTXSIM_API __attribute__((visibility("default")))

// A graph: work that is recorded, to be done each time the graph is launched.
struct CUgraphNode_st {
    unsigned type;                       // as CUgraphNodeType
    std::function<int()> run;            // in the stream of the present call
    std::vector<CUgraphNode_st*> after;  // that it comes after
};
struct CUgraph_st {
    std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
    std::weak_ptr<void> ready;  // what its latest executable graph holds
};
struct CUgraphExec_st {
    struct Step { CUgraphNode_st* node; unsigned type; std::function<int()> run; };
    std::vector<Step> steps;  // in their order
    bool frees;               // before each launch, what was allocated in the last and not freed
    std::shared_ptr<void> exists;
};

namespace ptxsim {

constexpr int OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONFIGURATION = 9,
              INVALID_SYMBOL = 13, UNAVAILABLE = 46, INVALID_DEVICE_FUNCTION = 98, INVALID_DEVICE = 101,
              INVALID_IMAGE = 200, NO_BINARY = 209, INVALID_HANDLE = 400, NOT_FOUND = 500, NO_DEVICE = 100, NOT_READY = 600,
              OUT_OF_RESOURCES = 701, NOT_SUPPORTED = 801, COOPERATIVE_TOO_LARGE = 720, ILLEGAL_STATE = 401,
              CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_MERGE = 902, CAPTURE_UNMATCHED = 903,
              CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905, CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907,
              CAPTURE_WRONG_THREAD = 908;

// What an allocation is; the numbers are part of the protocol.
enum Kind : uint32_t { DEVICE = 0, MANAGED = 1, HOST = 2, VARIABLE = 3, MANAGED_VARIABLE = 4 };
inline bool host_may_touch(Kind kind) { return kind == MANAGED || kind == HOST || kind == MANAGED_VARIABLE; }

struct Block {
    uint64_t address, size, span;  // bytes asked for, bytes reserved with the guard behind
    Kind kind;
    unsigned flags;  // of cudaHostAlloc
    bool of_stream;  // of cudaMallocAsync
    bool of_graph;   // its address is kept for a node of a graph
    bool live;       // false: nobody has it until the graph is launched
};

struct Gpu {
    std::string name;
    int major, minor, sms, clock_khz, memory_clock_khz, bus_bits, l2_bytes;
    int shared_per_sm, shared_optin, registers_per_sm, threads_per_sm, blocks_per_sm, persisting_l2, window_bytes;
    uint64_t memory;
};

struct Parameter {
    uint32_t offset, size;
};

struct Module;

struct Kernel {
    Module* module;
    std::string name;
    std::vector<Parameter> parameters;
    uint32_t static_shared, local_bytes, registers, max_threads, constant_bytes;  // registers: 0 where not known
    uint32_t cluster[3];     // __cluster_dims__; 0: none
    int dynamic_limit = -1;  // cudaFuncAttributeMaxDynamicSharedMemorySize; -1: not set
    int carveout = -1;
    bool non_portable_cluster = false;
    const void* host = nullptr;  // its stub in the program
};

struct Variable {
    std::string name;
    uint64_t address, size;
    bool constant, managed;
};

struct Module {
    uint32_t id;
    std::map<std::string, Kernel*> kernels;
    std::map<std::string, Variable> variables;
    std::vector<std::string> names;  // of its kernels
    bool loaded = false;
    int error = OK;
    const void* image = nullptr;
};

struct Launch {
    uint32_t grid[3], block[3], cluster[3];  // cluster: 0: as the kernel says
    uint64_t shared;
    bool cooperative;
    bool dependent;  // it may begin before the launch before it has ended
};

class Buffer {  // a message
  public:
    std::string bytes;
    Buffer& u32(uint32_t v) { return raw(&v, 4); }
    Buffer& u64(uint64_t v) { return raw(&v, 8); }
    Buffer& text(const std::string& s) { u32(uint32_t(s.size())); return raw(s.data(), s.size()); }
    Buffer& raw(const void* p, size_t n) { bytes.append(static_cast<const char*>(p), n); return *this; }
};

class Reader {  // a reply
  public:
    explicit Reader(std::string b) : bytes_(std::move(b)) {}
    uint32_t u32() { uint32_t v = 0; take(&v, 4); return v; }
    uint64_t u64() { uint64_t v = 0; take(&v, 8); return v; }
    std::string text() { std::string s(u32(), '\0'); take(s.data(), s.size()); return s; }

  private:
    void take(void* to, size_t n) {  // zeros where the reply ends before
        size_t there = at_ < bytes_.size() ? bytes_.size() - at_ : 0;
        memset(to, 0, n);
        memcpy(to, bytes_.data() + at_, n < there ? n : there);
        at_ += n;
    }
    std::string bytes_;
    size_t at_ = 0;
};

constexpr int PARKED = -1;  // in the reply to LAUNCH: the kernel waits for the host; nothing of it was done

// Messages to the emulator; ptxsim/exec/protocol.py has the same numbers.
enum Message : uint32_t {
    HELLO = 1, ALLOCATED = 2, FREED = 3, WRITTEN = 4, MODULE_LOAD = 5, MODULE_PLACE = 6, KERNEL = 7, LAUNCH = 8,
    NOTE = 9, TEXTURE = 10, TEXTURE_GONE = 11, TENSOR_MAP = 12, GEMM = 13, HOST_FAULT = 14, ORDER = 15,
    COPIED = 16, ARRAY_TEXTURE = 17,
};
// What a NOTE is; 2 and 3 count as errors of the run.
enum Note : uint32_t { REMARK = 0, ONCE = 1, API_ERROR = 2, UNSUPPORTED = 3 };

// What an ORDER is: the host has waited for everything, a stream or an event; an event was recorded in a stream; a stream
// waits for an event; a stream was made that does not wait for the default one (1) or does (0); a profiler's range begins
// (1) or ends (0).
enum Ordering : uint32_t { ALL_DONE = 0, STREAM_DONE = 1, EVENT_DONE = 2, RECORDED = 3, WAITS = 4, CREATED = 5, PROFILES = 6 };

struct PTXSIM_API Here {  // an entry point, while it is executed: who calls it from where; holds the lock
    Here(const char* name, void* caller);
    ~Here();
    bool outermost;
};

PTXSIM_API int ready();              // connect at the first call; an error that sticks to the context afterwards
PTXSIM_API int connected();          // the same without the context's error
PTXSIM_API int sticky();             // the context's error, 0 for none
PTXSIM_API void reset();             // frees everything, as cudaDeviceReset
PTXSIM_API const Gpu& gpu();
PTXSIM_API int fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));  // says why; gives code
PTXSIM_API void note(Note kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
PTXSIM_API int missing(const char* name, void* caller);  // an entry point that is not there

PTXSIM_API void of_stream(const void* stream);  // what the present call asks for is work of a stream, for which nobody waits
PTXSIM_API bool under_way();  // whether a kernel was launched for which the host has not waited
PTXSIM_API uint64_t order(Ordering what, const void* a = nullptr, uint64_t b = 0);

// Behind a kernel that waits for the host, work of its stream waits, too, until the host waits or has asked twice.
// Puts off work of the present call's stream (RECORDED, WAITS: concerning an event); false: it is to be done now.
PTXSIM_API bool put_off(std::function<int()> work, Ordering what = CREATED, const void* event = nullptr);
PTXSIM_API bool reached(Ordering what, const void* a);  // what a query answers, of a stream or an event

PTXSIM_API int allocate(size_t size, Kind kind, void** out, unsigned flags = 0);
PTXSIM_API int share(void* first, size_t size, void** out);  // puts whole pages of the program's own into memory of kernels, too
PTXSIM_API int unshare(void* first, size_t size, void* shared);
PTXSIM_API int release(void* address, bool host);  // in the present call's stream, if it has one
PTXSIM_API const Block* find(const void* address);  // the allocation that holds an address
PTXSIM_API bool is_device_range(const void* address);
PTXSIM_API uint64_t allocated();
PTXSIM_API void* alias(const void* address);  // where these bytes are accessible here
enum Direction { TO_HOST = 2, TO_DEVICE = 1, WITHIN_DEVICE = 3, WITHIN_HOST = 0, ANY = 4 };  // as cudaMemcpyKind
PTXSIM_API int copy(void* to, const void* from, size_t size, int direction);
PTXSIM_API int copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                       int direction);
PTXSIM_API int fill(void* to, size_t pitch, uint32_t value, size_t element, size_t width, size_t height);

// Work of the present call goes into a graph, as its stream is captured or as `Recording` says, or behind what waits; gives
// NOW where it is to be done, or why it cannot be.
enum NodeType : unsigned {
    KERNEL_NODE = 0, COPY_NODE = 1, FILL_NODE = 2, HOST_NODE = 3, GRAPH_NODE = 4, EMPTY_NODE = 5, ALLOCATE_NODE = 10, FREE_NODE = 11,
};
constexpr int NOW = -2;
PTXSIM_API int recorded(NodeType type, std::function<int()> work);
PTXSIM_API int run(const CUgraphExec_st& graph);  // each node in the present stream
PTXSIM_API int allocate_in_graph(size_t size, void** out);  // as a node of the graph that the present stream is captured into
// Streams that are captured into a graph, from cuStreamBeginCapture to cuStreamEndCapture.
struct Capture {
    uint64_t id, origin;  // the stream that it began in
    unsigned mode;        // as CUstreamCaptureMode
    pthread_t thread;
    std::unique_ptr<CUgraph_st> graph;
    std::map<uint64_t, std::vector<CUgraphNode_st*>> ends;  // by stream: what its next node comes after
    bool valid;
};
PTXSIM_API Capture* capturing(const void* stream);  // null: the stream is not captured
PTXSIM_API Capture* capture_of(uint64_t id);        // null: it has ended
PTXSIM_API int begin_capture(const void* stream, unsigned mode);
PTXSIM_API int end_capture(const void* stream, CUgraph_st** out);
PTXSIM_API unsigned exchange_capture_mode(unsigned mode);  // of the calling thread; gives the old one
PTXSIM_API int invalidate(Capture* capture, int code, const char* why);
// Why the present call is not permitted while streams are captured, which ends those captures; 0: it is. Work of its
// stream; a call that may wait for the device by itself; a wait for a stream; one for the device.
PTXSIM_API int permit_work();
PTXSIM_API int permit_call();
PTXSIM_API int permit_wait(const void* stream);
PTXSIM_API int permit_wait();
// The node that was recorded last comes after these; its work takes the place of another's in a graph that is ready.
PTXSIM_API int added_node(CUgraph_st* graph, CUgraphNode_st* const* after, size_t count, CUgraphNode_st** out);
PTXSIM_API int replaced_work(CUgraphExec_st* of, CUgraphNode_st* node, const CUgraph_st& by);
struct PTXSIM_API Recording {
    explicit Recording(CUgraph_st* graph);
    ~Recording();
};

PTXSIM_API Module* new_module(const void* image);
PTXSIM_API int load(Module* module);
PTXSIM_API void unload(Module* module);
PTXSIM_API int get_kernel(Module* module, const char* name, Kernel** out);
PTXSIM_API int get_variable(Module* module, const char* name, Variable** out);
PTXSIM_API int set_attributes(Launch* what, const Kernel* kernel, const void* list, unsigned count);  // as CUlaunchAttribute
PTXSIM_API int launch(Kernel* kernel, const Launch& what, void** arguments, void** extra);
PTXSIM_API int occupancy(Kernel* kernel, int threads, size_t shared, int* blocks);
PTXSIM_API int set_dynamic_limit(Kernel* kernel, int bytes);
PTXSIM_API int attribute(int which, int* value);
PTXSIM_API const char* error_name(int code);  // as the API that is called names it
PTXSIM_API const char* runtime_error_name(int code);
PTXSIM_API const char* error_text(int code);
PTXSIM_API void* entry_point(const char* name);  // of libcuda, by its documented name; null: not there

// CUDA arrays. A size of 0: the array lacks that dimension; of layered arrays and cube maps the depth counts layers.
enum ArrayFlags : uint32_t { ARRAY_LAYERED = 1, ARRAY_SURFACE = 2, ARRAY_CUBE = 4, ARRAY_GATHER = 8 };  // as cudaArray...
struct Array {
    uint64_t address;
    size_t width, height, depth;       // in elements
    uint32_t format, channels, flags;  // format: as CUarray_format
    size_t element;                    // bytes
    size_t row() const { return width * element; }
    size_t rows() const { return height ? height : 1; }
    size_t planes() const { return depth ? depth : 1; }
};
PTXSIM_API int new_array(const Array& asked, Array** out);
PTXSIM_API int free_array(const void* handle);
PTXSIM_API void forget_arrays();  // their memory is freed
PTXSIM_API int array_at(const void* handle, Array** out);
// Where byte x of row y lies; `width` bytes of `rows` rows from there must be within the array.
PTXSIM_API int array_place(const void* handle, size_t x, size_t y, size_t width, size_t rows, void** at, Array** array);
struct Side { char* at; size_t pitch, rows; };  // of a copy: where it begins, bytes from row to row, rows from plane to plane
PTXSIM_API int array_side(const void* handle, size_t x, size_t y, size_t z, size_t width, size_t rows, size_t planes, Side* out);
PTXSIM_API int copy_boxes(const Side& to, const Side& from, size_t width, size_t rows, size_t planes, int direction);

// Textures and surfaces.
struct Sampling {
    uint32_t address[3];  // as CUaddress_mode
    bool linear, read_normalized, normalized_coordinates;
};
struct TextureAsked {
    uint32_t type;      // as CUresourcetype
    const void* array;  // the handle, or
    Array linear;       // linear memory: its width in bytes; or rows at a pitch in bytes
    size_t pitch;
    Sampling sampling;
    float border[4];
    bool srgb;
};
PTXSIM_API int new_texture(const TextureAsked& asked, uint64_t* handle);
PTXSIM_API int surface(const void* array, uint64_t* handle);
int linear_texture(const void* address, size_t bytes, int format, int channels, bool normalized_read, uint64_t* handle);
uint64_t next_texture_handle();
int require_memory(const void* address, size_t bytes);  // of a texture, to be within one allocation of the device
PTXSIM_API void new_tensor_map(const Buffer& description);  // its 128 bytes and what they stand for
PTXSIM_API void drop_texture(uint64_t handle);
PTXSIM_API bool request(Message kind, const Buffer& payload, std::string* reply);  // false: the emulator is gone

}  // namespace ptxsim

#define PTXSIM_ENTER ptxsim::Here here_(__func__, __builtin_return_address(0))
