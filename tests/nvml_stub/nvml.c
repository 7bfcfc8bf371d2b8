// libnvidia-ml.so.1 of a machine that exists only as a JSON file, named by $NVML_STUB_MACHINE.
//
// It has what NVIDIA's device plugin and nvidia-ml-py call at start and at allocation. The file is read again whenever
// it was written, so that a test loses a GPU, raises an XID, switches MIG on, or makes any call fail or hang, while a
// program runs:
//
//   {"driver": "550.54.15", "cuda": 12040,
//    "devices": [{"uuid": "GPU-…", "name": "NVIDIA H100", "serial": "1", "minor": 0, "pci": "00000000:11:00.0",
//                 "memoryMiB": 81559, "lost": false, "mig": 0, "migDevices": [{"uuid": "MIG-…"}],
//                 "links": [{"remote": "00000000:12:00.0", "type": 0}]}],
//    "ancestors": [[0, 10], [10, 0]],
//    "events": [{"device": 0, "xid": 79}],
//    "fail": {"nvmlDeviceGetName": 999}, "hang": ["nvmlDeviceGetUUID"]}
//
// Written from the published interface of NVML; numbers are those of nvml.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

typedef int nvmlReturn_t;
typedef struct { int index, mig; } handle;  // mig: 0 = the GPU, n = its n-th MIG device
typedef handle *nvmlDevice_t;

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, UNKNOWN = 999,
};
enum { DEVICES_MAX = 64, MIG_MAX = 8, LINKS_MAX = 18, EVENT_XID = 8 };
enum { WAKE_MS = 50 };  // a wait looks for events so often; the real library sleeps in the kernel and costs no CPU

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

static handle handles[DEVICES_MAX][MIG_MAX + 1];
static json *machine;
static struct timespec read_at;
static int users, told_events;

static void look(void) {
    const char *path = getenv("NVML_STUB_MACHINE");
    struct stat now;
    if (!path || stat(path, &now) || (machine && !memcmp(&now.st_mtim, &read_at, sizeof read_at))) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    char *text = calloc(1, (size_t)now.st_size + 1);
    size_t got = fread(text, 1, (size_t)now.st_size, file);
    fclose(file);
    text[got] = 0;
    json *found = json_parse(text);
    free(text);
    if (!found) return;  // half written: the next call reads it again
    json_free(machine);
    machine = found;
    read_at = now.st_mtim;
}

// What every call begins with: it may be told to hang or to fail.
static nvmlReturn_t begin(const char *call) {
    look();
    const json *hang = json_at(machine, "hang");
    for (int n = 0; hang && n < hang->count; n++)
        if (!strcmp(json_item(hang, n)->text, call)) pause();
    if (!machine) return DRIVER_NOT_LOADED;
    long told = json_number(json_at(machine, "fail"), call, SUCCESS);
    if (told != SUCCESS) return (nvmlReturn_t)told;
    return users || !strncmp(call, "nvmlInit", 8) ? SUCCESS : UNINITIALIZED;
}

static nvmlReturn_t begin_device(const char *call, nvmlDevice_t device, const json **found) {
    nvmlReturn_t told = begin(call);
    if (told != SUCCESS) return told;
    if (!device) return INVALID_ARGUMENT;
    *found = json_item(json_at(machine, "devices"), device->index);
    if (!*found) return INVALID_ARGUMENT;
    if (json_number(*found, "lost", 0)) return GPU_IS_LOST;
    if (device->mig) *found = json_item(json_at(*found, "migDevices"), device->mig - 1);
    return *found ? SUCCESS : NOT_FOUND;
}

static nvmlReturn_t put(char *into, unsigned length, const char *text) {
    if (!text) return NOT_SUPPORTED;
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(into, text);
    return SUCCESS;
}

static void pci(nvmlPciInfo_t *into, const char *address) {
    unsigned function = 0;
    memset(into, 0, sizeof *into);
    sscanf(address, "%x:%x:%x.%x", &into->domain, &into->bus, &into->device, &function);
    snprintf(into->busId, sizeof into->busId, "%08X:%02X:%02X.0", into->domain, into->bus, into->device);
    snprintf(into->busIdLegacy, sizeof into->busIdLegacy, "%04X:%02X:%02X.0", into->domain & 0xffff, into->bus, into->device);
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    nvmlReturn_t told = begin("nvmlInit");
    if (told == SUCCESS) users++;
    return told;
}
nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlShutdown(void) {
    nvmlReturn_t told = begin("nvmlShutdown");
    if (told == SUCCESS) users--;
    return told;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    nvmlReturn_t told = begin("nvmlSystemGetDriverVersion");
    return told != SUCCESS ? told : put(version, length, json_text(machine, "driver", NULL));
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    nvmlReturn_t told = begin("nvmlSystemGetNVMLVersion");
    return told != SUCCESS ? told : put(version, length, json_text(machine, "driver", NULL));
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    nvmlReturn_t told = begin("nvmlSystemGetCudaDriverVersion");
    if (told == SUCCESS) *version = (int)json_number(machine, "cuda", 0);
    return told;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    nvmlReturn_t told = begin("nvmlDeviceGetCount");
    const json *devices = json_at(machine, "devices");
    if (told == SUCCESS) *count = devices ? (unsigned)devices->count : 0;
    return told;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

static nvmlDevice_t handle_of(int index, int mig) {
    handles[index][mig] = (handle){index, mig};
    return &handles[index][mig];
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    nvmlReturn_t told = begin("nvmlDeviceGetHandleByIndex");
    if (told != SUCCESS) return told;
    const json *found = json_item(json_at(machine, "devices"), (int)index);
    if (!found || index >= DEVICES_MAX) return INVALID_ARGUMENT;
    if (json_number(found, "lost", 0)) return GPU_IS_LOST;
    *device = handle_of((int)index, 0);
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    nvmlReturn_t told = begin("nvmlDeviceGetHandleByUUID");
    if (told != SUCCESS) return told;
    const json *devices = json_at(machine, "devices");
    for (int n = 0; devices && n < devices->count && n < DEVICES_MAX; n++)
        if (!strcmp(json_text(json_item(devices, n), "uuid", ""), uuid)) {
            *device = handle_of(n, 0);
            return SUCCESS;
        }
    return NOT_FOUND;
}

// Texts and numbers of a device: one function each, by the member's name.
#define TEXT(call, member)                                                         \
    nvmlReturn_t call(nvmlDevice_t device, char *into, unsigned length) {          \
        const json *found;                                                         \
        nvmlReturn_t told = begin_device(#call, device, &found);                   \
        return told != SUCCESS ? told : put(into, length, json_text(found, member, NULL)); \
    }
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetSerial, "serial")

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetIndex", device, &found);
    if (told == SUCCESS) *index = (unsigned)device->index;
    return told;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetMinorNumber", device, &found);
    long number = told == SUCCESS ? json_number(found, "minor", -1) : -1;
    if (told == SUCCESS && number < 0) return NOT_SUPPORTED;
    if (told == SUCCESS) *minor = (unsigned)number;
    return told;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *into) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetPciInfo", device, &found);
    if (told == SUCCESS) pci(into, json_text(found, "pci", "00000000:00:00.0"));
    return told;
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *into) { return nvmlDeviceGetPciInfo_v3(device, into); }

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *into) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetMemoryInfo", device, &found);
    if (told == SUCCESS) {
        into->total = (unsigned long long)json_number(found, "memoryMiB", 0) << 20;
        into->used = 0;
        into->free = into->total;
    }
    return told;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *into) {
    nvmlMemory_t plain;
    nvmlReturn_t told = nvmlDeviceGetMemoryInfo(device, &plain);
    if (told == SUCCESS) {
        into->total = into->free = plain.total;
        into->reserved = into->used = 0;
    }
    return told;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetMigMode", device, &found);
    if (told != SUCCESS) return told;
    if (!json_at(found, "mig")) return NOT_SUPPORTED;
    *current = *pending = (unsigned)json_number(found, "mig", 0);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetMaxMigDeviceCount", device, &found);
    if (told == SUCCESS) *count = json_at(found, "mig") ? MIG_MAX : 0;
    return told;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetMigDeviceHandleByIndex", device, &found);
    if (told != SUCCESS) return told;
    if (index >= MIG_MAX || !json_item(json_at(found, "migDevices"), (int)index)) return NOT_FOUND;
    *mig = handle_of(device->index, (int)index + 1);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is) {
    nvmlReturn_t told = begin("nvmlDeviceIsMigDeviceHandle");
    if (told == SUCCESS) *is = device->mig != 0;
    return told;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig, &found);
    if (told == SUCCESS) *device = handle_of(mig->index, 0);
    return told;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetCudaComputeCapability", device, &found);
    if (told == SUCCESS) *major = 9, *minor = 0;
    return told;
}

// Of a machine without a fabric manager.
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, void *into) {
    const json *found;
    (void)into;
    nvmlReturn_t told = begin_device("nvmlDeviceGetGpuFabricInfo", device, &found);
    return told != SUCCESS ? told : NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned *level) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetTopologyCommonAncestor", one, &found);
    if (told == SUCCESS) told = begin_device("nvmlDeviceGetTopologyCommonAncestor", other, &found);
    if (told != SUCCESS) return told;
    const json *cell = json_item(json_item(json_at(machine, "ancestors"), one->index), other->index);
    if (!cell || cell->kind != J_NUMBER) return NOT_SUPPORTED;
    *level = (unsigned)cell->number;
    return SUCCESS;
}

static nvmlReturn_t link_of(const char *call, nvmlDevice_t device, unsigned link, const json **found) {
    nvmlReturn_t told = begin_device(call, device, found);
    if (told != SUCCESS) return told;
    if (link >= LINKS_MAX) return INVALID_ARGUMENT;
    *found = json_item(json_at(*found, "links"), (int)link);
    return *found ? SUCCESS : NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *active) {
    const json *found;
    nvmlReturn_t told = link_of("nvmlDeviceGetNvLinkState", device, link, &found);
    if (told == SUCCESS) *active = (unsigned)json_number(found, "active", 1);
    return told;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *into) {
    const json *found;
    nvmlReturn_t told = link_of("nvmlDeviceGetNvLinkRemotePciInfo", device, link, &found);
    if (told == SUCCESS) pci(into, json_text(found, "remote", "00000000:00:00.0"));
    return told;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, unsigned *type) {
    const json *found;
    nvmlReturn_t told = link_of("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &found);
    if (told == SUCCESS) *type = (unsigned)json_number(found, "type", 0);
    return told;
}

nvmlReturn_t nvmlEventSetCreate(void **set) {
    nvmlReturn_t told = begin("nvmlEventSetCreate");
    if (told == SUCCESS) *set = &told_events;
    return told;
}
nvmlReturn_t nvmlEventSetFree(void *set) {
    (void)set;
    return begin("nvmlEventSetFree");
}
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    const json *found;
    nvmlReturn_t told = begin_device("nvmlDeviceGetSupportedEventTypes", device, &found);
    if (told == SUCCESS) *types = EVENT_XID;
    return told;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, void *set) {
    const json *found;
    (void)types, (void)set;
    return begin_device("nvmlDeviceRegisterEvents", device, &found);
}
nvmlReturn_t nvmlEventSetWait_v2(void *set, nvmlEventData_t *into, unsigned timeout_ms) {
    (void)set;
    for (unsigned waited = 0;; waited += WAKE_MS) {
        nvmlReturn_t told = begin("nvmlEventSetWait");
        if (told != SUCCESS) return told;
        const json *event = json_item(json_at(machine, "events"), told_events);
        if (event) {
            told_events++;
            memset(into, 0, sizeof *into);
            into->device = handle_of((int)json_number(event, "device", 0), 0);
            into->eventType = EVENT_XID;
            into->eventData = (unsigned long long)json_number(event, "xid", 0);
            return SUCCESS;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        usleep(1000 * WAKE_MS);
    }
}
nvmlReturn_t nvmlEventSetWait(void *set, nvmlEventData_t *into, unsigned timeout_ms) {
    return nvmlEventSetWait_v2(set, into, timeout_ms);
}
