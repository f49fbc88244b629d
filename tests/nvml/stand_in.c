// A stand-in for libnvidia-ml.so.1, for the real pynvml to load. Its cards are the lines "KEY VALUE" of the file that
// NVML_STAND_IN names, read at every call, so that several processes see one state and a test can change it under them.
// Every call that would change a card is appended to the file NAME.calls.
//
//   cards N             how many there are
//   sm0 N, memory0 N    the locked clocks of card 0, in MHz; none or 0: not locked
//   name TEXT           what all cards are called, in place of "NVIDIA Stand-in"
//   model0 N            card 0 is of another model;  denied0 1: it was given to somebody else;  mig0 N: N instances on it
//   processes0 N        the pid of a process that computes on card 0;  busy0 N: its utilisation in percent
//   deny 1              setting needs a permission that is not there
//   ignore 1            locks are granted and have no effect
//   slow N              a reset takes N milliseconds
//   fatal 1             the process is killed as soon as a lock is granted
//   lost 1              every call on a card fails with GPU_IS_LOST
//   unsupported_X 1     X (offers, processes, lock_memory) is not supported
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef char *nvmlDevice_t; // its index, from the address of `anchor`
enum { SUCCESS, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15 };
enum { SM_BOOST = 1980, SM_BASE = 1500, SM_STEP = 15, MEMORY_HIGH = 3201, MEMORY_LOW = 1593 };

typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} Process;

static char anchor[256];
enum { CARDS = 16 }; // then 8 instances of card 0, 8 of card 1, and so on

static const char *state_path(void) {
    const char *path = getenv("NVML_STAND_IN");
    return path ? path : "/nonexistent";
}

static int index_of(nvmlDevice_t device) { return (int)(device - anchor); }

static const char *keyed(const char *name, nvmlDevice_t device) {
    static char key[64];
    snprintf(key, sizeof key, "%s%d", name, index_of(device));
    return key;
}

static int get(const char *key) {
    char line[256], name[64];
    int value, found = 0;
    FILE *file = fopen(state_path(), "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %d", name, &value) == 2 && !strcmp(name, key)) found = value;
    if (file) fclose(file);
    return found;
}

// The rest of the line that begins with `key` and a space, into `value`; whether there is one.
static int get_text(const char *key, char *value, size_t length) {
    char line[256];
    int found = 0;
    FILE *file = fopen(state_path(), "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ' ') {
            line[strcspn(line, "\n")] = 0;
            snprintf(value, length, "%s", line + strlen(key) + 1);
            found = 1;
        }
    if (file) fclose(file);
    return found;
}

// The last line of a key counts, so a change is one appended line.
static void append(const char *suffix, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", state_path(), suffix);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (write(file, text, strlen(text)) < 0) abort();
    close(file);
}

static nvmlReturn_t change(const char *call, nvmlDevice_t device, const char *name, unsigned mhz) {
    char line[128];
    snprintf(line, sizeof line, "%s %d %u\n", call, index_of(device), mhz);
    append(".calls", line);
    if (get("lost")) return LOST;
    if (get("deny")) return NO_PERMISSION;
    if (!strcmp(name, "memory") && get("unsupported_lock_memory")) return NOT_SUPPORTED;
    snprintf(line, sizeof line, "%s%d %u\n", name, index_of(device), mhz);
    append("", line);
    if (mhz && get("fatal")) raise(SIGKILL);
    if (!mhz) usleep(1000 * get("slow"));
    return SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(nvmlReturn_t error) {
    switch (error) {
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "999.0");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    *count = get("cards");
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    *device = anchor + index;
    if ((int)index >= get("cards")) return INVALID_ARGUMENT;
    return get(keyed("denied", *device)) ? NO_PERMISSION : SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    *current = *pending = get(keyed("mig", device)) > 0;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    *count = 7;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance) {
    *instance = anchor + CARDS + 8 * index_of(device) + index;
    return (int)index < get(keyed("mig", device)) ? SUCCESS : NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t instance, nvmlDevice_t *device) {
    *device = anchor + (index_of(instance) - CARDS) / 8;
    return index_of(instance) < CARDS ? INVALID_ARGUMENT : SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    int index = index_of(device), instance = index - CARDS;
    if (index < CARDS) snprintf(uuid, length, "GPU-stand-in-%d", index);
    else snprintf(uuid, length, "MIG-stand-in-%d-%d", instance / 8, instance % 8);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    int index = -1;
    if (sscanf(uuid, "GPU-stand-in-%d", &index) != 1) return INVALID_ARGUMENT;
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    *index = index_of(device);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    int model = get(keyed("model", device));
    char base[64];
    if (!get_text("name", base, sizeof base)) snprintf(base, sizeof base, "NVIDIA Stand-in");
    snprintf(name, length, "%s%s%.0d", base, model ? " " : "", model);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    *major = 9, *minor = 0;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned *cores) {
    *cores = 132 * 128;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *mhz) {
    int memory = type == 2; // NVML_CLOCK_MEM
    int lock = get("ignore") ? 0 : get(keyed(memory ? "memory" : "sm", device));
    *mhz = lock ? lock : memory ? MEMORY_LOW : SM_BOOST;
    return get("lost") ? LOST : SUCCESS;
}

static nvmlReturn_t list(unsigned *count, unsigned *values, const unsigned *from, unsigned length) {
    if (get("unsupported_offers")) return NOT_SUPPORTED;
    if (!values || *count < length) {
        *count = length;
        return INSUFFICIENT_SIZE;
    }
    *count = length;
    memcpy(values, from, length * sizeof *from);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned *count, unsigned *mhz) {
    const unsigned offered[] = {MEMORY_HIGH, MEMORY_LOW};
    return list(count, mhz, offered, 2);
}

// With the low memory clock, no SM clock above the base.
nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memory, unsigned *count, unsigned *mhz) {
    unsigned offered[64], length = 0;
    for (unsigned clock = memory == MEMORY_HIGH ? SM_BOOST : SM_BASE; clock >= 1200; clock -= SM_STEP)
        offered[length++] = clock;
    return list(count, mhz, offered, length);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, Process *processes) {
    int pid = get(keyed("processes", device));
    if (get("unsupported_processes")) return NOT_SUPPORTED;
    if (pid && (!processes || *count < 1)) {
        *count = 1;
        return INSUFFICIENT_SIZE;
    }
    *count = pid ? 1 : 0;
    if (pid) processes[0] = (Process){.pid = pid};
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, unsigned *rates) {
    rates[0] = get(keyed("busy", device)), rates[1] = 0;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned low, unsigned high) {
    return low == high ? change("SetGpuLockedClocks", device, "sm", high) : INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned low, unsigned high) {
    return low == high ? change("SetMemoryLockedClocks", device, "memory", high) : INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
    return change("ResetGpuLockedClocks", device, "sm", 0);
}

nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device) {
    return change("ResetMemoryLockedClocks", device, "memory", 0);
}

// What an emulated H100 says of itself: its limits, and meters that move with the time of the host.

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *mhz) {
    *mhz = type == 2 ? MEMORY_HIGH : SM_BOOST;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts) {
    *milliwatts = 700000;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, unsigned long long *bytes) {
    bytes[0] = bytes[1] = 80ull << 30, bytes[2] = 0; // total, free, used
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = 500 * (now.tv_sec * 1000ull + now.tv_nsec / 1000000); // 500 W
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius) {
    *celsius = 50;
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    *reasons = 0;
    return SUCCESS;
}
