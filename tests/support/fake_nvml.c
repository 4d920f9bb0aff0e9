/* A stand-in for the library of the NVIDIA driver, so that the real nvidia-ml-py can be tested without a GPU.
 *
 * Environment: FAKE_NVML_DEVICES (default 2), FAKE_NVML_USED_0, FAKE_NVML_TOTAL_0, FAKE_NVML_PROCESS_0,
 * FAKE_NVML_UTILIZATION_0 and the same for other devices; FAKE_NVML_PIDS lists the processes on every device
 * (default: the caller's own) and FAKE_NVML_FAIL is "function=code", or "function@device=code" for one device.
 * All are read at each call, so that a device can be lost while it is watched.
 * With -DOLD_DRIVER the functions that drivers before 510 lack are left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, MOST_DEVICES = 8, ANY_DEVICE = -1 };

typedef struct { int index; } Device;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;

static Device devices[MOST_DEVICES];

static unsigned long long setting(const char *name, int device, unsigned long long otherwise) {
    char variable[64];
    if (device == ANY_DEVICE)
        snprintf(variable, sizeof variable, "FAKE_NVML_%s", name);
    else
        snprintf(variable, sizeof variable, "FAKE_NVML_%s_%d", name, device);
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static int failure(const char *function, int device) {
    const char *text = getenv("FAKE_NVML_FAIL");
    char wanted[64];
    int code = SUCCESS, only = ANY_DEVICE;
    if (!text)
        return SUCCESS;
    if (sscanf(text, "%63[^@=]@%d=%d", wanted, &only, &code) != 3 && sscanf(text, "%63[^=]=%d", wanted, &code) != 2)
        return INVALID_ARGUMENT;
    return strcmp(wanted, function) || (only != ANY_DEVICE && only != device) ? SUCCESS : code;
}

#define FAIL_ON_DEMAND(device)                           \
    do {                                                 \
        int code_on_demand = failure(__func__, device);  \
        if (code_on_demand) return code_on_demand;       \
    } while (0)

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    FAIL_ON_DEMAND(ANY_DEVICE);
    return SUCCESS;
}

int nvmlShutdown(void) {
    FAIL_ON_DEMAND(ANY_DEVICE);
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    return code == 21 ? "No data (said by the library)" : "Some other error";
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    FAIL_ON_DEMAND(ANY_DEVICE);
    *count = (unsigned)setting("DEVICES", ANY_DEVICE, 2);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    FAIL_ON_DEMAND((int)index);
    if (index >= MOST_DEVICES)
        return INVALID_ARGUMENT;
    devices[index].index = (int)index;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetName(Device *device, char *name, unsigned length) {
    FAIL_ON_DEMAND(device->index);
    snprintf(name, length, "Imaginary GPU %c", 'A' + device->index);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned length) {
    FAIL_ON_DEMAND(device->index);
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012d", device->index);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    FAIL_ON_DEMAND(device->index);
    memory->total = setting("TOTAL", device->index, 0);
    memory->used = setting("USED", device->index, 0);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *utilization) {
    FAIL_ON_DEMAND(device->index);
    utilization->gpu = (unsigned)setting("UTILIZATION", device->index, 0);
    utilization->memory = 0;
    return SUCCESS;
}

/* As the real one: too small an array is told, with the size that would do. */
static int list_processes(Device *device, unsigned *count, Process *processes) {
    const char *listed = getenv("FAKE_NVML_PIDS");
    char own[16];
    unsigned room = *count, found = 0;
    snprintf(own, sizeof own, "%d", (int)getpid());
    for (char *rest = (char *)(listed ? listed : own); *rest; found++) {
        unsigned pid = (unsigned)strtoul(rest, &rest, 10);
        rest += *rest == ',';
        if (found < room && processes)
            processes[found] = (Process){.pid = pid, .used = setting("PROCESS", device->index, 0)};
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, unsigned *count, Process *processes) {
    FAIL_ON_DEMAND(device->index);
    return list_processes(device, count, processes);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *memory) {
    FAIL_ON_DEMAND(device->index);
    memory->total = setting("TOTAL", device->index, 0);
    memory->reserved = setting("RESERVED", device->index, 0);
    memory->used = setting("USED", device->index, 0) - memory->reserved;
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *processes) {
    FAIL_ON_DEMAND(device->index);
    return list_processes(device, count, processes);
}
#endif
