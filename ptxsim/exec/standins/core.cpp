// Device memory, modules, launches, and the socket to the emulator. See core.hpp.
#include "core.hpp"

#include <ctype.h>
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <set>
#include <tuple>
#include <utility>

namespace ptxsim {

namespace {

constexpr uint64_t BASE = 0x200060000000;  // where device memory begins; ptxsim/machine/memory.py has it as GLOBAL_BASE
constexpr uint64_t SPAN = 1ull << 38;      // addresses reserved for it
constexpr uint64_t OF_LAUNCH = 16 << 20;  // for the emulator, as device_memory.py has it
constexpr uint64_t PAGE = 4096;
constexpr uint32_t FATBIN_MAGIC = 0xBA55ED50, WRAPPER_MAGIC = 0x466243B1;
constexpr int FRAMES = 12;  // of a host fault's stack that are searched for a line of the program
constexpr int CALLERS = 4;  // of a CUDA call: the header's inline functions, and the program's own
constexpr int DEFAULT_SHARED = 48 * 1024, RESERVED_SHARED = 1024;

enum State { NEW, CONNECTED, REFUSED, FORKED, CLOSED };
std::recursive_mutex guard;
State state = NEW;
int sock = -1, memory_fd = -1;
char* mapped = nullptr;  // all of device memory, accessible; the program's own view of it begins at BASE
Gpu device;
int context_error = OK, pending_error = OK;
bool lost = false;
std::map<uint64_t, Block> blocks;  // by address
uint64_t live_device = 0, live = 0;
std::string outbox;  // messages that need no reply
uint32_t next_module = 1;
uint64_t next_texture = 0x7E0001;
std::vector<Module*> modules;
struct sigaction old_segv, old_bus;
thread_local const char* entry = "";
thread_local void* caller = nullptr;
thread_local const std::string* places = nullptr;  // of the call that made the node that runs, as put_caller writes them
thread_local int depth = 0;
bool launched = false;  // since the host last waited
thread_local uint64_t stream_now = 0;     // of the present call,
thread_local bool asynchronous = false;  // and whether that is one of a stream
bool may_park = false;  // whether the kernel that is launched now may wait for the host

struct PutOff {  // work behind a kernel that waits for the host, or such a kernel
    std::function<int()> run;
    uint64_t stream;
    bool asynchronous, kernel;
    Ordering what;   // RECORDED: it records the event; WAITS: it waits for it
    uint64_t event;
    const char* entry;
    void* caller;
};
std::vector<PutOff> waiting;  // in the order of the calls
std::set<uint64_t> alone;     // streams that do not wait for the default one, nor it for them
std::set<uint64_t> asked;     // streams and events that a query has called not ready, since work was put off
bool settling = false;
std::vector<std::unique_ptr<Capture>> captures;
uint64_t next_capture = 1;
thread_local unsigned capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
CUgraph_st* recording = nullptr;  // that a node is made for
bool graph_frees = false;         // whether the graph that is run frees what its last launch left

void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
void say(const char* format, ...) {
    char line[1024];
    va_list list;
    va_start(list, format);
    int n = snprintf(line, sizeof line, "ptxsim: ");
    n += vsnprintf(line + n, sizeof line - size_t(n) - 1, format, list);
    va_end(list);
    n = std::min(n, int(sizeof line) - 2);
    line[n++] = '\n';
    if (write(2, line, size_t(n)) < 0) return;
}

bool send_all(const char* data, size_t size) {
    while (size) {
        ssize_t n = send(sock, data, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n, size -= size_t(n);
    }
    return true;
}

bool receive_all(char* data, size_t size) {
    while (size) {
        ssize_t n = recv(sock, data, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n, size -= size_t(n);
    }
    return true;
}

void send_note(Note kind, const char* text);

struct AtExit {  // what was not sent yet, such as the last cudaFree
    ~AtExit();
} at_exit;

void lose() {
    if (lost) return;
    lost = true;
    context_error = UNAVAILABLE;
    say("the emulator has ended unexpectedly: every further CUDA call of this program fails");
}

void frame(std::string& out, Message kind, const std::string& payload) {
    uint32_t header[2] = {kind, uint32_t(payload.size())};
    out.append(reinterpret_cast<char*>(header), 8);
    out.append(payload);
}

void post(Message kind, const Buffer& payload) {  // goes with the next request
    frame(outbox, kind, payload.bytes);
    if (outbox.size() > 1 << 16) {
        if (!send_all(outbox.data(), outbox.size())) lose();
        outbox.clear();
    }
}

AtExit::~AtExit() {
    if (state == CONNECTED && !lost && !waiting.empty()) {
        char text[128];
        snprintf(text, sizeof text, "the program ended with %zu launches and copies not done: they are behind a kernel that waits for the host",
                 waiting.size());
        send_note(REMARK, text);
    }
    if (state == CONNECTED && !lost && !outbox.empty()) send_all(outbox.data(), outbox.size());
    outbox.clear();
}

void put_place(Buffer& b, void* address) {  // where in which object file an address of code is
    Dl_info info;
    if (address != nullptr && dladdr(address, &info) && info.dli_fname) {
        char full[PATH_MAX];
        const char* name = realpath(*info.dli_fname ? info.dli_fname : "/proc/self/exe", full);
        b.text(name ? name : info.dli_fname).u64(uint64_t(address) - uint64_t(info.dli_fbase) - 1);
    } else {
        b.text("").u64(0);
    }
}

std::string amount(uint64_t bytes) {
    static const char* const UNITS[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = double(bytes);
    int unit = 0;
    while (value >= 1024 && unit < 4) value /= 1024, ++unit;
    char text[32];
    snprintf(text, sizeof text, value < 100 && unit ? "%.3g %s" : "%.0f %s", value, UNITS[unit]);
    return text;
}

void put_caller(Buffer& b) {  // from where the program called, and from where it came there
    if (places) {
        b.raw(places->data(), places->size());
        return;
    }
    void* frames[FRAMES + 8];
    int count = backtrace(frames, FRAMES + 8), first = 0;
    while (first < count && frames[first] != caller) ++first;
    if (first == count) frames[first = 0] = caller, count = 1;
    count = std::min(count, first + CALLERS);
    b.u32(uint32_t(count - first));
    for (int i = first; i < count; ++i) put_place(b, frames[i]);
}

const char* plain(const char* name) {  // cuMemAlloc_v2 as documented: cuMemAlloc
    static thread_local char held[128];
    if (strncmp(name, "__cudaLaunchKernel", 18) == 0) return "launch";
    snprintf(held, sizeof held, "%s", name);
    size_t n = strlen(held);
    if (n > 3 && held[n - 3] == '_' && held[n - 2] == 'v') held[n - 3] = '\0';
    return held;
}

void send_note(Note kind, const char* text) {
    if (state != CONNECTED || lost) {
        say("%s%s%s", *entry ? plain(entry) : "", *entry ? ": " : "", text);
        return;
    }
    Buffer b;
    b.u32(kind).text(plain(entry)).text(text);
    put_caller(b);
    std::string reply;
    request(NOTE, b, &reply);  // an answer, so that the line is printed before what the program does next
}

// Which pages host code may touch from now on, as the emulator has it.
void protect(Reader& r) {
    for (uint32_t n = r.u32(); n; --n) {
        uint64_t start = r.u64(), end = r.u64();
        uint32_t may = r.u32();
        const Block* b = find(reinterpret_cast<void*>(start));
        if (b && host_may_touch(b->kind))
            mprotect(reinterpret_cast<void*>(start), end - start, may == 3 ? PROT_READ | PROT_WRITE : may ? PROT_READ : PROT_NONE);
    }
}

// A host access to device memory: the emulator says so, then the signal takes its course; or to memory of the host that
// work under way writes: the emulator says so, and the access is made.
void on_fault(int number, siginfo_t* info, void* context) {
    struct sigaction& old = number == SIGSEGV ? old_segv : old_bus;
    uint64_t address = uint64_t(info->si_addr);
    if (address - BASE < SPAN && info->si_code > 0) {
        bool writes = false;
        void* pc = nullptr;
#ifdef __x86_64__
        auto* u = static_cast<ucontext_t*>(context);
        writes = u->uc_mcontext.gregs[REG_ERR] & 2;
        pc = reinterpret_cast<void*>(u->uc_mcontext.gregs[REG_RIP]);
#endif
        bool reported = false;
        if (!lost && state == CONNECTED && guard.try_lock()) {
            void* frames[FRAMES];
            int count = backtrace(frames, FRAMES);
            Buffer b;
            b.u64(address).u32(writes).u32(uint32_t(count + 1));
            put_place(b, static_cast<char*>(pc) + 1);
            for (int i = 0; i < count; ++i) put_place(b, frames[i]);
            std::string reply;
            reported = request(HOST_FAULT, b, &reply);
            Reader r(reply);
            bool go_on = reported && r.u32();
            if (go_on) protect(r);
            guard.unlock();
            if (go_on) return;
        }
        if (!reported) say("host code %s device memory at 0x%lx", writes ? "writes" : "reads", (unsigned long)address);
    }
    sigaction(number, &old, nullptr);  // returning repeats the access, now without this handler
}

void after_fork() {  // CUDA is not usable in a child of a process that has used it
    if (state == CONNECTED) {
        state = FORKED;
        close(sock);
        sock = -1;
    }
}

int refuse(const char* why) {
    state = REFUSED;
    context_error = INVALID_DEVICE;
    say("%s", why);
    return context_error;
}

int connect_now() {
    const char* path = getenv("PTXSIM_EXEC_SOCKET");
    if (path == nullptr) return refuse("this stand-in for CUDA works under `ptxsim exec` (or `ptxsim.device()`) only");
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof where.sun_path) return refuse("PTXSIM_EXEC_SOCKET is too long");
    strcpy(where.sun_path, path);
    sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, reinterpret_cast<sockaddr*>(&where), sizeof where) < 0)
        return refuse("the emulator cannot be reached: has `ptxsim exec` ended?");
    memory_fd = int(memfd_create("ptxsim", MFD_CLOEXEC));
    if (memory_fd < 0 || ftruncate(memory_fd, off_t(SPAN)) < 0)
        return refuse("no shared memory can be made for the device's memory");
    char executable[PATH_MAX] = "";
    if (realpath("/proc/self/exe", executable) == nullptr) executable[0] = '\0';
    Buffer b;
    b.u32(uint32_t(getpid())).u64(BASE).u64(SPAN).text(executable);
    uint32_t header[2] = {HELLO, uint32_t(b.bytes.size())};
    b.bytes.insert(0, reinterpret_cast<char*>(header), 8);
    iovec part{b.bytes.data(), b.bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &memory_fd, sizeof(int));
    uint32_t size = 0;
    if (sendmsg(sock, &message, MSG_NOSIGNAL) != ssize_t(b.bytes.size()) ||
        !receive_all(reinterpret_cast<char*>(&size), 4))
        return refuse("the emulator does not answer");
    std::string reply(size, '\0');
    if (!receive_all(reply.data(), size)) return refuse("the emulator does not answer");
    Reader r(reply);
    device.name = r.text();
    for (int* field : {&device.major, &device.minor, &device.sms, &device.clock_khz, &device.memory_clock_khz,
                       &device.bus_bits, &device.l2_bytes, &device.shared_per_sm, &device.shared_optin,
                       &device.registers_per_sm, &device.threads_per_sm, &device.blocks_per_sm, &device.persisting_l2,
                       &device.window_bytes})
        *field = int(r.u32());
    device.memory = r.u64();
    int flags = MAP_SHARED | MAP_NORESERVE;
    void* own = mmap(reinterpret_cast<void*>(BASE), SPAN, PROT_NONE, flags | MAP_FIXED_NOREPLACE, memory_fd, 0);
    void* all = mmap(nullptr, SPAN, PROT_READ | PROT_WRITE, flags, memory_fd, 0);
    if (own != reinterpret_cast<void*>(BASE) || all == MAP_FAILED)
        return refuse("no address space can be reserved for the device's memory (ulimit -v?)");
    mapped = static_cast<char*>(all);
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
    void* warm[1];
    backtrace(warm, 1);  // loads what it needs now, not in the handler
    static int once = pthread_atfork(nullptr, nullptr, after_fork);
    (void)once;
    state = CONNECTED;
    return OK;
}

uint64_t number_in(const char* path, const char* key) {
    FILE* file = fopen(path, "re");
    if (file == nullptr) return UINT64_MAX;
    char line[256];
    uint64_t value = UINT64_MAX;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) {
            char* end = nullptr;
            uint64_t found = strtoull(line + strlen(key), &end, 10);
            if (end != line + strlen(key)) value = found;
            break;
        }
    fclose(file);
    return value;
}

uint64_t host_memory_left() {  // of this machine, for what is allocated but not touched yet as well
    uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    uint64_t left = kib == UINT64_MAX ? UINT64_MAX / 4 : kib * 1024;
    uint64_t most = number_in("/sys/fs/cgroup/memory.max", ""), used = number_in("/sys/fs/cgroup/memory.current", "");
    if (most != UINT64_MAX && used != UINT64_MAX) left = std::min(left, most > used ? most - used : 0);
    struct stat s{};
    uint64_t touched = fstat(memory_fd, &s) == 0 ? uint64_t(s.st_blocks) * 512 : 0;
    uint64_t promised = live > touched ? live - touched : 0;
    return left > promised ? left - promised : 0;
}

struct Wrapper {  // what nvcc registers
    uint32_t magic, version;
    const void* data;
    const void* const* linked;  // of version 2: the fat binaries that nvlink made it of, up to a null pointer
};

size_t image_size(const void* image) {
    auto* bytes = static_cast<const unsigned char*>(image);
    uint32_t magic = 0;
    memcpy(&magic, image, 4);
    if (magic == FATBIN_MAGIC) {
        uint16_t header = 0;
        uint64_t size = 0;
        memcpy(&header, bytes + 6, 2);
        memcpy(&size, bytes + 8, 8);
        return header + size;
    }
    if (memcmp(bytes, ELFMAG, SELFMAG) == 0) {
        Elf64_Ehdr e;
        memcpy(&e, image, sizeof e);
        uint64_t end = std::max<uint64_t>(e.e_shoff + uint64_t(e.e_shnum) * e.e_shentsize,
                                          e.e_phoff + uint64_t(e.e_phnum) * e.e_phentsize);
        return end;
    }
    return strlen(static_cast<const char*>(image));  // PTX
}

}  // namespace

Here::Here(const char* name, void* from) {
    guard.lock();
    outermost = depth++ == 0;
    if (outermost) entry = name, caller = from;
}

Here::~Here() {
    --depth;
    if (outermost) entry = "", caller = nullptr, stream_now = 0, asynchronous = false;
    guard.unlock();
}

bool request(Message kind, const Buffer& payload, std::string* reply) {
    if (lost || state != CONNECTED) return false;
    frame(outbox, kind, payload.bytes);
    uint32_t size = 0;
    bool good = send_all(outbox.data(), outbox.size()) && receive_all(reinterpret_cast<char*>(&size), 4);
    outbox.clear();
    if (good) {
        reply->assign(size, '\0');
        good = receive_all(reply->data(), size);
    }
    if (!good) lose();
    return good;
}

Capture* capturing(const void* stream) {
    for (auto& c : captures)
        if (c->ends.count(uint64_t(stream))) return c.get();
    return nullptr;
}

Capture* capture_of(uint64_t id) {
    for (auto& c : captures)
        if (c->id == id) return c.get();
    return nullptr;
}

int invalidate(Capture* capture, int code, const char* why) {
    bool first = capture->valid;
    capture->valid = false;
    return first ? fail(code, "%s; the capture is invalidated", why) : code;
}

// Invalidates the captures for which a condition holds, and says why if there are any.
template <typename Condition>
static int forbid(Condition condition, int code, const char* why) {
    Capture* first = nullptr;
    for (auto& c : captures)
        if (condition(*c)) {
            if (first == nullptr) first = c.get();
            else c->valid = false;
        }
    return first ? invalidate(first, code, why) : OK;
}

// The legacy default stream waits for all streams but those of cudaStreamNonBlocking, and they for it.
static int permit_legacy() {
    auto waited_for = [](const Capture& c) {
        return std::any_of(c.ends.begin(), c.ends.end(), [](auto& end) { return !alone.count(end.first); });
    };
    return forbid(waited_for, CAPTURE_IMPLICIT, "the legacy default stream would wait for a stream that is captured into a graph "
                  "and was created without cudaStreamNonBlocking");
}

int permit_work() {
    if (settling || recording) return OK;
    if (stream_now <= 1) return permit_legacy();
    Capture* c = capturing(reinterpret_cast<void*>(stream_now));
    return c && !c->valid ? CAPTURE_INVALIDATED : OK;
}

int permit_call() {
    auto concerned = [](const Capture& c) {
        bool here = pthread_equal(c.thread, pthread_self());
        return here ? c.mode != CU_STREAM_CAPTURE_MODE_RELAXED
                    : c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    };
    if (capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return OK;
    return forbid(concerned, CAPTURE_UNSUPPORTED, "a call that may wait for the device is not permitted while a stream is captured "
                  "in this mode; call it before, or in cudaStreamCaptureModeRelaxed");
}

int permit_wait(const void* stream) {
    if (Capture* c = capturing(stream))
        return invalidate(c, CAPTURE_UNSUPPORTED, "the stream is captured into a graph, which runs later: nothing can be waited for");
    if (uint64_t(stream) <= 1)
        if (int code = permit_legacy()) return code;
    return permit_call();
}

int permit_wait() {
    auto any = [](const Capture&) { return true; };
    return forbid(any, CAPTURE_UNSUPPORTED, "a stream is captured into a graph, which runs later: the device cannot be waited for");
}

unsigned exchange_capture_mode(unsigned mode) { return std::exchange(capture_mode, mode); }

int begin_capture(const void* stream, unsigned mode) {
    if (uint64_t(stream) <= 1) return fail(CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
    if (capturing(stream)) return fail(ILLEGAL_STATE, "the stream %p is captured already", stream);
    captures.emplace_back(new Capture{next_capture++, uint64_t(stream), mode, pthread_self(), std::make_unique<CUgraph_st>(), {}, true});
    captures.back()->ends[uint64_t(stream)];
    return OK;
}

static void mark_before(CUgraphNode_st* n, std::set<CUgraphNode_st*>& marked) {
    if (!marked.insert(n).second) return;
    for (CUgraphNode_st* before : n->after) mark_before(before, marked);
}

int end_capture(const void* stream, CUgraph_st** out) {
    *out = nullptr;
    Capture* c = capturing(stream);
    if (c == nullptr) return fail(ILLEGAL_STATE, "the stream %p is not captured", stream);
    if (c->origin != uint64_t(stream)) return invalidate(c, CAPTURE_UNMATCHED, "the capture began in another stream, and ends there");
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return invalidate(c, CAPTURE_WRONG_THREAD, "the capture began in another thread, and ends there");
    auto it = std::find_if(captures.begin(), captures.end(), [c](auto& other) { return other.get() == c; });
    std::unique_ptr<Capture> ended = std::move(*it);
    captures.erase(it);
    if (!ended->valid) return CAPTURE_INVALIDATED;  // which was said
    std::set<CUgraphNode_st*> joined;
    for (CUgraphNode_st* n : ended->ends[uint64_t(stream)]) mark_before(n, joined);
    if (size_t left = ended->graph->nodes.size() - joined.size())
        return fail(CAPTURE_UNJOINED, "%zu of the %zu nodes are of other streams that are not joined: record an event there, and let "
                    "the stream in which the capture began wait for it", left, ended->graph->nodes.size());
    *out = ended->graph.release();
    return OK;
}

Recording::Recording(CUgraph_st* graph) { recording = graph; }
Recording::~Recording() { recording = nullptr; }

// Whether work of one stream comes before later work of another.
static bool ordered(uint64_t a, uint64_t b) {
    return a == b || ((a <= 1 || b <= 1) && (a <= 1 || !alone.count(a)) && (b <= 1 || !alone.count(b)));
}

static PutOff as_put_off(std::function<int()> work, bool kernel, Ordering what, uint64_t event) {
    asked.erase(stream_now);
    if (event) asked.erase(event);
    return {std::move(work), stream_now, asynchronous, kernel, what, event, entry, caller};
}

static bool put_off(std::function<int()> work, bool kernel, Ordering what, uint64_t event) {
    if (settling || waiting.empty()) return false;
    auto before = [&](const PutOff& w) {
        return ordered(w.stream, stream_now) || (what == WAITS && w.what == RECORDED && w.event == event);
    };
    if (std::none_of(waiting.begin(), waiting.end(), before)) return false;
    waiting.push_back(as_put_off(std::move(work), kernel, what, event));
    return true;
}

bool put_off(std::function<int()> work, Ordering what, const void* event) {
    return put_off(std::move(work), false, what, uint64_t(event));
}

// Which of what was put off must be done before something is reached.
static std::vector<bool> needed_for(Ordering target, uint64_t which) {
    size_t n = waiting.size();
    std::vector<bool> needed(n);
    bool event_found = false;
    for (size_t i = n; i-- > 0;) {
        const PutOff& w = waiting[i];
        bool need = target == ALL_DONE || (target == STREAM_DONE && ordered(w.stream, which));
        if (target == EVENT_DONE && !event_found && w.what == RECORDED && w.event == which) need = event_found = true;
        for (size_t k = i + 1; k < n && !need; ++k) {
            const PutOff& later = waiting[k];
            need = needed[k] && (ordered(w.stream, later.stream) ||
                                 (w.what == RECORDED && later.what == WAITS && w.event == later.event));
        }
        needed[i] = need;
    }
    return needed;
}

// Do what was put off, as far as something needs it. `parks`: a kernel may go on waiting; false: one does.
static bool settle(Ordering target, uint64_t which, bool parks) {
    if (settling || waiting.empty()) return true;
    std::vector<bool> needed = needed_for(target, which);
    std::vector<PutOff> all;
    all.swap(waiting);
    auto held = std::make_tuple(entry, caller, stream_now, asynchronous);
    bool done = true;
    settling = true;
    for (size_t i = 0; i < all.size(); ++i) {
        int code = PARKED;
        if (needed[i] && done) {
            const PutOff& w = all[i];
            entry = w.entry, caller = w.caller, stream_now = w.stream, asynchronous = w.asynchronous;
            may_park = parks && w.kernel;
            code = context_error ? OK : w.run();  // after a fault nothing more is done
            may_park = false;
            done = code != PARKED;
            if (code != OK && code != PARKED && pending_error == OK) pending_error = code;
        }
        if (code == PARKED) waiting.push_back(std::move(all[i]));
    }
    settling = false;
    std::tie(entry, caller, stream_now, asynchronous) = held;
    return done;
}

bool reached(Ordering what, const void* a) {
    uint64_t which = uint64_t(a);
    std::vector<bool> needed = needed_for(what, which);
    if (std::none_of(needed.begin(), needed.end(), [](bool need) { return need; })) return true;
    return !asked.insert(which).second && settle(what, which, true);
}

int recorded(NodeType type, std::function<int()> work) {
    if (settling) return NOW;
    if (int code = permit_work()) return code;
    Capture* c = recording ? nullptr : capturing(reinterpret_cast<void*>(stream_now));
    CUgraph_st* graph = c ? c->graph.get() : recording;
    if (graph == nullptr) return put_off(std::move(work), type == KERNEL_NODE, CREATED, 0) ? OK : NOW;
    Buffer from;
    put_caller(from);
    auto of_call = [work = std::move(work), call = entry, from = from.bytes] {  // messages name the call that made the node
        auto held = std::make_pair(entry, places);
        entry = call, places = &from;
        int code = work ? work() : OK;
        std::tie(entry, places) = held;
        return code;
    };
    graph->nodes.emplace_back(new CUgraphNode_st{type, std::move(of_call), {}});
    if (c) {
        CUgraphNode_st* node = graph->nodes.back().get();
        node->after = std::exchange(c->ends[stream_now], {node});
    }
    return OK;
}

int added_node(CUgraph_st* graph, CUgraphNode_st* const* after, size_t count, CUgraphNode_st** out) {
    CUgraphNode_st* n = graph->nodes.back().get();
    if (count) n->after.assign(after, after + count);
    if (out) *out = n;
    return OK;
}

int replaced_work(CUgraphExec_st* of, CUgraphNode_st* node, const CUgraph_st& by) {
    for (auto& step : of->steps)
        if (step.node == node && !by.nodes.empty()) step.run = by.nodes.back()->run;
    return OK;
}

int run(const CUgraphExec_st& graph) {
    graph_frees = graph.frees;
    for (auto& step : graph.steps)
        if (int code = step.run()) return code;
    return OK;
}

void of_stream(const void* stream) { stream_now = uint64_t(stream), asynchronous = true; }

bool under_way() { return launched; }

uint64_t order(Ordering what, const void* a, uint64_t b) {
    std::string reply;
    if (what <= EVENT_DONE) {
        settle(what, what == EVENT_DONE ? b : uint64_t(a), false);
        launched = false;
    }
    if (what == CREATED && b) alone.insert(uint64_t(a));
    if (!request(ORDER, Buffer().u32(what).u64(uint64_t(a)).u64(b), &reply)) return 0;
    Reader r(reply);
    protect(r);
    return r.u64();
}

// Whether CUDA_VISIBLE_DEVICES leaves no device; whichever one it names, by number or UUID, is the emulated one.
static bool hidden() {
    const char* visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) return false;
    visible += strspn(visible, " ");
    return !isdigit(*visible) && strncmp(visible, "GPU-", 4) && strncmp(visible, "MIG-", 4);
}

int ready() {
    if (state == NEW) return hidden() ? NO_DEVICE : connect_now();
    if (state == CLOSED) return NOT_INITIALIZED;
    if (state == FORKED) {
        static bool reported = false;
        if (!reported) say("CUDA cannot be used after fork() by a process whose parent had used it");
        reported = true;
        return NOT_INITIALIZED;
    }
    return context_error;
}

int connected() {
    int code = ready();
    return state == CONNECTED && !lost ? OK : code;
}

int sticky() {
    int code = ready();
    if (code == OK && pending_error != OK) {
        code = pending_error;
        pending_error = OK;
    }
    return code;
}

const Gpu& gpu() { return device; }

void note(Note kind, const char* format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    send_note(kind, text);
}

int fail(int code, const char* format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    int n = snprintf(text, sizeof text, "%s: ", error_name(code));
    vsnprintf(text + n, sizeof text - size_t(n), format, list);
    va_end(list);
    send_note(code == OUT_OF_MEMORY ? REMARK : API_ERROR, text);
    return code;
}

int missing(const char* name, void* from) {
    Here here(name, from);
    if (int code = ready()) return code;
    send_note(UNSUPPORTED, "is not emulated; it returned an error (not supported) and did nothing");
    return NOT_SUPPORTED;
}

const char* error_name(int code) {
    const char* text = strncmp(entry, "cuda", 4) == 0 || entry[0] == '_' ? runtime_error_name(code) : nullptr;
    if (text) return text;
    return cuGetErrorName(CUresult(code), &text) == CUDA_SUCCESS ? text : "an unknown error";
}

const char* error_text(int code) {
    const char* text = nullptr;
    return cuGetErrorString(CUresult(code), &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

// memory

bool is_device_range(const void* address) { return uint64_t(address) - BASE < SPAN; }

const Block* find(const void* address) {
    auto after = blocks.upper_bound(uint64_t(address));
    if (after == blocks.begin()) return nullptr;
    const Block& b = std::prev(after)->second;
    bool there = b.live || (b.of_graph && (recording || !captures.empty()));
    return there && uint64_t(address) < b.address + std::max<uint64_t>(b.size, 1) ? &b : nullptr;
}

uint64_t allocated() { return live_device; }

void* alias(const void* address) {
    return is_device_range(address) ? mapped + (uint64_t(address) - BASE) : const_cast<void*>(address);
}

// The program has the memory of a block from now on.
static void hand_out(Block& b) {
    b.live = true;
    live += b.size;
    if (b.kind != HOST) live_device += b.size;
    Buffer message;
    message.u64(b.address).u64(b.size).u32(b.kind).u64(stream_now).u32(asynchronous).text(plain(entry));
    put_caller(message);
    post(ALLOCATED, message);
}

// Finds addresses for memory that nobody has yet.
static int reserve(size_t size, Kind kind, unsigned flags, Block** out) {
    bool of_device = kind != HOST;
    uint64_t span = (size + PAGE - 1) / PAGE * PAGE + PAGE;  // a page that belongs to nobody behind each
    if (of_device && (size > device.memory || live_device + size > device.memory))
        return fail(OUT_OF_MEMORY, "%s asked for; the %s has %s, of which %s are allocated", amount(size).c_str(),
                    device.name.c_str(), amount(device.memory).c_str(), amount(live_device).c_str());
    if (size > (64u << 20)) {
        uint64_t left = host_memory_left();
        if (size > left)
            return fail(OUT_OF_MEMORY, "%s asked for; this machine, whose memory stands in for the device's, has %s left",
                        amount(size).c_str(), amount(left).c_str());
    }
    static uint64_t top = BASE + OF_LAUNCH;
    uint64_t at = kind < VARIABLE ? BASE + OF_LAUNCH : top;  // pointers to freed memory point to no variable
    for (auto& [start, b] : blocks) {                        // the first gap that is large enough
        if (at + span <= start) break;
        at = std::max(at, start + b.span);
    }
    if (at + span > BASE + SPAN) return fail(OUT_OF_MEMORY, "no addresses are left");
    top = std::max(top, at + span);
    *out = &(blocks[at] = Block{at, size, span, kind, flags, asynchronous, false, false});
    return OK;
}

int allocate(size_t size, Kind kind, void** out, unsigned flags) {
    *out = nullptr;
    if (size == 0) return kind == HOST || kind == DEVICE ? OK : INVALID_VALUE;
    if (int code = asynchronous || kind >= VARIABLE ? OK : permit_call()) return code;
    Block* b = nullptr;
    if (int code = reserve(size, kind, flags, &b)) return code;
    if (host_may_touch(kind) && mprotect(reinterpret_cast<void*>(b->address), b->span - PAGE, PROT_READ | PROT_WRITE) != 0) {
        blocks.erase(b->address);
        return fail(OUT_OF_MEMORY, "mprotect: %s", strerror(errno));
    }
    hand_out(*b);
    *out = reinterpret_cast<void*>(b->address);
    return OK;
}

int share(void* first, size_t size, void** out) {
    if (int code = allocate(size, HOST, out)) return code;
    memcpy(alias(*out), first, size);
    if (mmap(first, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_fd, off_t(uint64_t(*out) - BASE)) != MAP_FAILED) return OK;
    int why = errno;
    release(*out, true);
    return fail(OUT_OF_MEMORY, "mmap: %s", strerror(why));
}

int unshare(void* first, size_t size, void* shared) {
    std::string contents(static_cast<const char*>(first), size);
    if (mmap(first, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return fail(OUT_OF_MEMORY, "mmap: %s", strerror(errno));
    memcpy(first, contents.data(), size);
    return release(shared, true);
}

int allocate_in_graph(size_t size, void** out) {
    *out = nullptr;
    if (size == 0) return OK;
    if (int code = permit_work()) return code;
    Block* b = nullptr;
    if (int code = reserve(size, DEVICE, 0, &b)) return code;
    b->of_graph = true;
    // the address is kept as long as the graph, or one that is ready, has the node
    std::shared_ptr<void> kept(reinterpret_cast<void*>(b->address), [](void* at) {
        auto it = blocks.find(uint64_t(at));
        if (it == blocks.end()) return;
        if (it->second.live) it->second.of_graph = false;
        else blocks.erase(it);
    });
    *out = kept.get();
    return recorded(ALLOCATE_NODE, [kept] {
        Block& mine = blocks[uint64_t(kept.get())];
        if (mine.live && !graph_frees) return fail(INVALID_VALUE, "the memory %p of the graph was not freed since its last launch", kept.get());
        if (mine.live) release(kept.get(), false);
        hand_out(mine);
        return OK;
    });
}

int release(void* address, bool host) {
    if (int code = asynchronous || recording ? permit_work() : permit_call()) return code;
    if (address == nullptr) return OK;
    auto it = blocks.find(uint64_t(address));
    bool found = it != blocks.end() && host == (it->second.kind == HOST) && it->second.kind < VARIABLE;
    bool captured = recording || (asynchronous && !settling && capturing(reinterpret_cast<void*>(stream_now)));
    if (!found || !(captured ? it->second.of_graph : it->second.live))
        return fail(INVALID_VALUE, "%p is not the start of an allocation that it can free%s", address,
                    found && captured ? " in a graph" : !found && find(address) ? ", but inside one" : "");
    if (captured) return recorded(FREE_NODE, [=] { return release(address, host); });
    Block b = it->second;
    bool waits = !asynchronous && !b.of_stream;  // cudaFree of memory of cudaMallocAsync does not
    if (waits) order(ALL_DONE);
    if (b.of_graph) it->second.live = false;
    else blocks.erase(it);
    live -= b.size;
    if (b.kind != HOST) live_device -= b.size;
    mprotect(reinterpret_cast<void*>(b.address), b.span, PROT_NONE);
    fallocate(memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(b.address - BASE), off_t(b.span));
    Buffer message;
    message.u64(b.address).u32(waits).u64(stream_now).u32(asynchronous).text(plain(entry));
    put_caller(message);
    post(FREED, message);
    return OK;
}

namespace {

void written(uint64_t address, size_t width, size_t pitch, size_t rows) {
    post(WRITTEN, Buffer().u64(address).u64(width).u64(pitch).u64(rows));
}

// A copy, or with no source a fill, was made: of rows of `width` bytes.
void copied(const void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height) {
    Buffer b;
    b.u64(uint64_t(to)).u64(to_pitch).u64(uint64_t(from)).u64(from_pitch).u64(width).u64(height);
    b.u64(stream_now).u32(asynchronous).text(plain(entry));
    if (!asynchronous && from != nullptr) launched = false;
    put_caller(b);
    std::string reply;
    if (!request(COPIED, b, &reply)) return;
    Reader r(reply);
    protect(r);
}

// Whether [address, address + size) is within one allocation, or no device memory at all; says what is wrong.
int require_range(const void* address, size_t size, const char* what) {
    if (!is_device_range(address)) return OK;
    const Block* b = find(address);
    if (b == nullptr) return fail(INVALID_VALUE, "the %s %p is in no allocation", what, address);
    uint64_t end = uint64_t(address) + size, last = b->address + b->size;
    if (end > last)
        return fail(INVALID_VALUE, "%zu bytes at the %s %p end %lu bytes past the end of its allocation of %lu bytes",
                    size, what, address, (unsigned long)(end - last), (unsigned long)b->size);
    return OK;
}

bool device_only(const void* p) {
    const Block* b = is_device_range(p) ? find(p) : nullptr;
    return b != nullptr && !host_may_touch(b->kind);
}

int require_direction(const void* to, const void* from, int direction) {
    if (direction < 0 || direction > ANY) return fail(INVALID_VALUE, "%d is no direction of a copy", direction);
    bool to_host = direction == TO_HOST || direction == WITHIN_HOST;
    bool from_host = direction == TO_DEVICE || direction == WITHIN_HOST;
    if (direction == ANY) return OK;
    if (to_host ? device_only(to) : !is_device_range(to))
        return fail(INVALID_VALUE, "the destination %p is %s, which the direction of the copy contradicts", to,
                    to_host ? "device memory" : "host memory");
    if (from_host ? device_only(from) : !is_device_range(from))
        return fail(INVALID_VALUE, "the source %p is %s, which the direction of the copy contradicts", from,
                    from_host ? "device memory" : "host memory");
    return OK;
}

using Source = std::shared_ptr<std::string>;

// Before a copy behind work that was put off: one that the host waits for is made at once; of another out of pageable
// memory what is there now is copied.
Source of_copy(const void* to, const void* from, size_t size) {
    if (settling || waiting.empty() || !captures.empty()) return nullptr;
    if (!asynchronous || !is_device_range(to)) settle(STREAM_DONE, stream_now, false);
    if (is_device_range(from) || waiting.empty()) return nullptr;
    return std::make_shared<std::string>(static_cast<const char*>(from), size);
}

}  // namespace

int copy(void* to, const void* from, size_t size, int direction) {
    if (size == 0) return OK;
    if (to == nullptr || from == nullptr) return fail(INVALID_VALUE, "a null pointer as the %s", to ? "source" : "destination");
    if (int code = require_direction(to, from, direction)) return code;
    if (int code = require_range(to, size, "destination")) return code;
    if (int code = require_range(from, size, "source")) return code;
    Source kept = of_copy(to, from, size);
    int code = recorded(COPY_NODE, [=] { return copy(to, kept ? kept->data() : from, size, direction); });
    if (code != NOW) return code;
    memmove(alias(to), alias(from), size);
    if (is_device_range(to)) written(uint64_t(to), size, size, 1);
    copied(to, size, from, size, size, 1);
    return OK;
}

int copy_2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, int direction) {
    if (width == 0 || height == 0) return OK;
    if (to == nullptr || from == nullptr) return fail(INVALID_VALUE, "a null pointer as the %s", to ? "source" : "destination");
    if (width > to_pitch || width > from_pitch)
        return fail(12, "rows of %zu bytes are wider than the pitch (%zu to %zu bytes)", width, from_pitch, to_pitch);
    if (int code = require_direction(to, from, direction)) return code;
    if (int code = require_range(to, to_pitch * (height - 1) + width, "destination")) return code;
    size_t span = from_pitch * (height - 1) + width;
    if (int code = require_range(from, span, "source")) return code;
    Source kept = of_copy(to, from, span);
    auto work = [=] { return copy_2d(to, to_pitch, kept ? kept->data() : from, from_pitch, width, height, direction); };
    if (int code = recorded(COPY_NODE, work); code != NOW) return code;
    auto* a = static_cast<char*>(alias(to));
    auto* b = static_cast<const char*>(alias(from));
    for (size_t row = 0; row < height; ++row) memmove(a + row * to_pitch, b + row * from_pitch, width);
    if (is_device_range(to)) written(uint64_t(to), width, to_pitch, height);
    copied(to, to_pitch, from, from_pitch, width, height);
    return OK;
}

// Makes holes of the pages of a large range, which then hold zeros; pages that nobody touched since cost nothing. False: it
// is not large, or that is not possible.
static bool made_zero(void* to, size_t bytes) {
    uint64_t start = uint64_t(to) - BASE, first = (start + PAGE - 1) / PAGE * PAGE, end = (start + bytes) / PAGE * PAGE;
    if (bytes < (1u << 20) || fallocate(memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(first), off_t(end - first)) != 0)
        return false;
    memset(mapped + start, 0, first - start);
    memset(mapped + end, 0, start + bytes - end);
    return true;
}

int fill(void* to, size_t pitch, uint32_t value, size_t element, size_t width, size_t height) {
    size_t bytes = width * element;
    if (bytes == 0 || height == 0) return OK;
    if (height > 1 && bytes > pitch) return fail(INVALID_VALUE, "rows of %zu bytes are wider than the pitch of %zu", bytes, pitch);
    if (!is_device_range(to)) return fail(INVALID_VALUE, "%p is not device memory", to);
    if (uint64_t(to) % element) return fail(INVALID_VALUE, "%p is not aligned to %zu bytes", to, element);
    if (int code = require_range(to, pitch * (height - 1) + bytes, "destination")) return code;
    int code = recorded(FILL_NODE, [=] { return fill(to, pitch, value, element, width, height); });
    if (code != NOW) return code;
    bool done = height == 1 && value == 0 && made_zero(to, bytes);
    for (size_t row = 0; row < height && !done; ++row) {
        auto* at = static_cast<char*>(alias(to)) + row * pitch;
        if (element == 1) memset(at, int(value), bytes);
        else if (element == 2) std::fill_n(reinterpret_cast<uint16_t*>(at), width, uint16_t(value));
        else std::fill_n(reinterpret_cast<uint32_t*>(at), width, value);
    }
    written(uint64_t(to), bytes, pitch, height);
    copied(to, pitch, nullptr, 0, bytes, height);
    return OK;
}

void reset() {
    if (state != CONNECTED) return;
    waiting.clear();
    captures.clear();
    for (Module* m : modules) {
        m->loaded = false, m->error = OK;
        m->variables.clear();
        for (auto& [name, kernel] : m->kernels) kernel->max_threads = 0;  // to be asked for again
    }
    forget_arrays();
    std::vector<uint64_t> all;
    for (auto& [start, b] : blocks) all.push_back(start);
    for (uint64_t start : all) {
        if (!blocks[start].live) continue;
        blocks[start].kind = blocks[start].kind == HOST ? HOST : DEVICE;
        blocks[start].of_graph = false;
        release(reinterpret_cast<void*>(start), blocks[start].kind == HOST);
    }
    if (!lost) context_error = pending_error = OK;
}

extern "C" PTXSIM_API void ptxsim_disconnect() {  // at the end of ptxsim.device()
    Here here("", nullptr);
    if (state == CONNECTED) {
        lost = false;
        reset();
        close(sock);
        close(memory_fd);
        munmap(mapped, SPAN);
        munmap(reinterpret_cast<void*>(BASE), SPAN);
        sigaction(SIGSEGV, &old_segv, nullptr);
        sigaction(SIGBUS, &old_bus, nullptr);
        outbox.clear();
    }
    state = CLOSED;
}

extern "C" PTXSIM_API void ptxsim_connect() {  // the same: from now on there is a device
    Here here("", nullptr);
    if (state == CONNECTED) return;
    state = NEW;
    context_error = pending_error = OK;
}

// modules

Module* new_module(const void* image) {
    auto* m = new Module;
    m->id = next_module++;
    m->image = image;
    modules.push_back(m);
    return m;
}

int load(Module* m) {
    if (m->loaded) return m->error;
    if (int code = ready()) return code;
    if (m->image == nullptr) return fail(INVALID_VALUE, "a null pointer in place of a module");
    std::vector<const void*> images{m->image};
    Wrapper w;
    memcpy(&w.magic, m->image, sizeof w.magic);
    if (w.magic == WRAPPER_MAGIC) {
        memcpy(&w, m->image, sizeof w);
        images[0] = w.data;
        for (const void* const* more = w.version == 2 ? w.linked : nullptr; more && *more; ++more) images.push_back(*more);
    }
    Buffer b;
    b.u32(m->id).u32(uint32_t(images.size()));
    for (const void* image : images) b.text(std::string(static_cast<const char*>(image), image_size(image)));
    put_place(b, caller);
    std::string reply;
    if (!request(MODULE_LOAD, b, &reply)) return context_error;
    m->loaded = true;
    Reader r(reply);
    m->error = int(r.u32());
    if (m->error != OK) return m->error;
    Buffer placed;
    placed.u32(m->id);
    uint32_t count = r.u32();
    for (uint32_t i = 0; i < count; ++i) {
        Variable v;
        v.name = r.text();
        v.size = r.u64();
        uint32_t what = r.u32();
        v.constant = what & 1, v.managed = what & 2;
        void* at = nullptr;
        int code = allocate(std::max<uint64_t>(v.size, 1), v.managed ? MANAGED_VARIABLE : VARIABLE, &at);
        if (code != OK) return m->error = code;
        v.address = uint64_t(at);
        placed.text(v.name).u64(v.address);
        m->variables[v.name] = v;
    }
    count = r.u32();
    m->names.clear();
    for (uint32_t i = 0; i < count; ++i) m->names.push_back(r.text());
    if (!request(MODULE_PLACE, placed, &reply)) return context_error;
    return m->error = int(Reader(reply).u32());
}

void unload(Module* m) {
    settle(ALL_DONE, 0, false);
    for (auto& [name, v] : m->variables) {
        auto it = blocks.find(v.address);
        if (it == blocks.end()) continue;
        it->second.kind = DEVICE;
        release(reinterpret_cast<void*>(v.address), false);
    }
    modules.erase(std::remove(modules.begin(), modules.end(), m), modules.end());
    m->variables.clear();  // its kernels' handles stay valid memory, and fail to launch
    m->loaded = true, m->error = INVALID_HANDLE;
}

int get_kernel(Module* m, const char* name, Kernel** out) {
    if (int code = load(m)) return code;
    auto found = m->kernels.find(name);
    if (found != m->kernels.end() && found->second->max_threads) {
        *out = found->second;
        return OK;
    }
    std::string reply;
    Buffer b;
    b.u32(m->id).text(name);
    if (!request(KERNEL, b, &reply)) return context_error;
    Reader r(reply);
    if (int code = int(r.u32())) return code;
    Kernel* k = found != m->kernels.end() ? found->second : new Kernel;
    k->module = m;
    k->name = name;
    k->parameters.clear();
    uint32_t count = r.u32();
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t offset = r.u32();
        k->parameters.push_back({offset, r.u32()});
    }
    k->static_shared = r.u32(), k->local_bytes = r.u32(), k->registers = r.u32();
    k->max_threads = r.u32(), k->constant_bytes = r.u32();
    for (uint32_t& c : k->cluster) c = r.u32();
    m->kernels[name] = k;
    *out = k;
    return OK;
}

int get_variable(Module* m, const char* name, Variable** out) {
    if (int code = load(m)) return code;
    auto found = m->variables.find(name);
    if (found == m->variables.end()) return NOT_FOUND;
    *out = &found->second;
    return OK;
}

int set_dynamic_limit(Kernel* k, int bytes) {
    int most = device.shared_optin - int(k->static_shared);
    if (bytes < 0 || bytes > most)
        return fail(INVALID_VALUE, "%d bytes of dynamic shared memory for %s; allowed: 0 to %d (%d bytes are static)", bytes,
                    k->name.c_str(), most, int(k->static_shared));
    k->dynamic_limit = bytes;
    return OK;
}

namespace {
int issued(Kernel* k, const Launch& what, const std::string& raw);
}

int launch(Kernel* k, const Launch& what, void** arguments, void** extra) {
    if (k->module->error) return k->module->error;
    static const uint32_t MOST_GRID[3] = {2147483647, 65535, 65535}, MOST_BLOCK[3] = {1024, 1024, 64};
    const char* name = k->name.c_str();
    uint64_t threads = uint64_t(what.block[0]) * what.block[1] * what.block[2];
    for (int i = 0; i < 3; ++i)
        if (what.grid[i] == 0 || what.grid[i] > MOST_GRID[i] || what.block[i] == 0 || what.block[i] > MOST_BLOCK[i] || threads > 1024)
            return fail(INVALID_CONFIGURATION, "%s with a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads; allowed: 1 to "
                        "(2147483647, 65535, 65535) blocks of at most 1024 threads", name, what.grid[0], what.grid[1], what.grid[2],
                        what.block[0], what.block[1], what.block[2]);
    if (threads > k->max_threads)
        return fail(OUT_OF_RESOURCES, "%s with blocks of %lu threads; it was compiled for at most %u", name, (unsigned long)threads,
                    k->max_threads);
    int64_t most = k->dynamic_limit >= 0 ? k->dynamic_limit : std::max(0, DEFAULT_SHARED - int(k->static_shared));
    if (k->dynamic_limit >= 0) most = std::max<int64_t>(most, DEFAULT_SHARED - int(k->static_shared));
    if (int64_t(what.shared) > most)
        return fail(INVALID_VALUE, "%s with %lu bytes of dynamic shared memory; allowed: %ld, or up to %d after "
                    "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)", name,
                    (unsigned long)what.shared, long(most), device.shared_optin - int(k->static_shared));
    if (what.cooperative) {
        int each = 0;
        if (int code = occupancy(k, int(threads), what.shared, &each)) return code;
        uint64_t total = uint64_t(what.grid[0]) * what.grid[1] * what.grid[2];
        if (total > uint64_t(each) * uint64_t(device.sms))
            return fail(COOPERATIVE_TOO_LARGE, "%s with %lu blocks; the %s holds %d at a time", name, (unsigned long)total,
                        device.name.c_str(), each * device.sms);
    }
    size_t bytes = 0;
    for (const Parameter& p : k->parameters) bytes = std::max<size_t>(bytes, p.offset + p.size);
    std::string raw(bytes, '\0');
    if (arguments != nullptr) {
        for (size_t i = 0; i < k->parameters.size(); ++i)
            memcpy(raw.data() + k->parameters[i].offset, alias(arguments[i]), k->parameters[i].size);
    } else if (extra != nullptr) {
        const void* from = nullptr;
        size_t size = 0;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
            if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) from = extra[1];
            if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<size_t*>(extra[1]);
        }
        if (size < bytes) return fail(INVALID_VALUE, "%s takes %zu bytes of parameters, got %zu", name, bytes, size);
        memcpy(raw.data(), from, bytes);
    } else if (bytes) {
        return fail(INVALID_VALUE, "%s takes %zu parameters, got none", name, k->parameters.size());
    }
    auto issue = [k, what, raw] { return issued(k, what, raw); };
    if (int code = recorded(KERNEL_NODE, issue); code != NOW) return code;
    may_park = !settling;
    int code = issue();
    may_park = false;
    if (code == PARKED) waiting.push_back(as_put_off(issue, true, CREATED, 0));
    return code == PARKED ? OK : code;
}

namespace {
int issued(Kernel* k, const Launch& what, const std::string& raw) {
    Buffer b;
    b.u32(k->module->id).text(k->name);
    for (auto& three : {what.grid, what.block, what.cluster})
        for (int i = 0; i < 3; ++i) b.u32(three[i]);
    b.u64(what.shared).u32(what.cooperative).u32(may_park).u32(what.dependent).text(raw).u64(stream_now);
    put_caller(b);
    fflush(stdout);  // what the program printed so far comes before what is said of the launch
    std::string reply;
    if (!request(LAUNCH, b, &reply)) return context_error;
    Reader r(reply);
    int now = int(r.u32()), later = int(r.u32()), once = int(r.u32());
    std::string printed = r.text();
    fwrite(printed.data(), 1, printed.size(), stdout);
    protect(r);
    launched = true;
    if (later) context_error = later;
    if (once) pending_error = once;
    return now;
}
}  // namespace

int occupancy(Kernel* k, int threads, size_t shared, int* out) {
    if (threads < 1) return fail(INVALID_VALUE, "blocks of %d threads", threads);
    int warps = (threads + 31) / 32;
    int by_threads = device.threads_per_sm / (warps * 32);
    uint64_t used = (k->static_shared + shared + RESERVED_SHARED + 127) / 128 * 128;
    int by_shared = int(uint64_t(device.shared_per_sm) / used);
    int by_registers = INT_MAX;
    if (k->registers) {
        int of_warp = (int(k->registers) + 7) / 8 * 8 * 32;
        int a_quarter = device.registers_per_sm / 4 / of_warp;  // warps that one of four schedulers holds
        by_registers = a_quarter * 4 / warps;
    } else {
        note(ONCE, "how many registers %s needs is not known without machine code (SASS) in the program: occupancies "
             "leave them out", k->name.c_str());
    }
    *out = threads > int(k->max_threads) || shared + k->static_shared > size_t(device.shared_optin)
               ? 0
               : std::min({by_threads, by_shared, by_registers, device.blocks_per_sm});
    return OK;
}

uint64_t next_texture_handle() { return next_texture++; }

int require_memory(const void* address, size_t bytes) {
    if (!is_device_range(address)) return fail(INVALID_VALUE, "%p is not device memory", address);
    if (uint64_t(address) % 512) return fail(INVALID_VALUE, "%p is not aligned to 512 bytes, as memory of a texture must be", address);
    return require_range(address, bytes, "memory");
}

int linear_texture(const void* address, size_t bytes, int format, int channels, bool normalized, uint64_t* handle) {
    if (int code = require_memory(address, bytes)) return code;
    *handle = next_texture_handle();
    post(TEXTURE, Buffer().u64(*handle).u64(uint64_t(address)).u64(bytes).u32(uint32_t(format)).u32(uint32_t(channels)).u32(normalized));
    return OK;
}

void drop_texture(uint64_t handle) { post(TEXTURE_GONE, Buffer().u64(handle)); }

void new_tensor_map(const Buffer& b) { post(TENSOR_MAP, b); }

}  // namespace ptxsim
