/* Events: an Xid and its like, once for each set whose registration it came after. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"

enum { MAX_REGISTERED = 64, POLL_MS = 10 };

typedef struct {
    char uuid[UUID_SIZE]; /* of a GPU; its instances' events come with it */
    unsigned long long types;
    int seen; /* so many of the state's events are older than this, or were given */
} Registration;

struct EventSet {
    Registration registered[MAX_REGISTERED];
    int count;
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS) {
        *set = calloc(1, sizeof **set);
        answer = *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
    }
    return end(answer);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    nvmlReturn_t answer = begin(__func__);
    free(set);
    return end(answer);
}

/* The bits of the types that a device reports. A double holds every bit that NVML has. */
static unsigned long long types_of(const Device *device)
{
    return device->known[EVENT_TYPES] ? (unsigned long long)device->figure[EVENT_TYPES] : 0;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle, unsigned long long *types)
{
    return give_ulonglong(__func__, handle, EVENT_TYPES, types);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types,
                                      nvmlEventSet_t set)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer != NVML_SUCCESS)
        return end(answer);
    if (!set)
        return end(NVML_ERROR_INVALID_ARGUMENT);
    if (is_instance(device) || (types & ~types_of(device)))
        return end(NVML_ERROR_NOT_SUPPORTED);
    if (set->count == MAX_REGISTERED)
        return end(NVML_ERROR_MEMORY);
    Registration *registration = &set->registered[set->count++];
    registration->types = types;
    registration->seen = the_state->event_count;
    memcpy(registration->uuid, device->uuid, sizeof registration->uuid);
    return end(NVML_SUCCESS);
}

/* Whether an event is one that was registered for; its device is then in `*event`. */
static bool is_wanted(const Registration *registration, const Event *happened,
                      nvmlEventData_t *event)
{
    const Device *device = find_device(the_state, happened->uuid);
    const char *gpu = device && is_instance(device) ? device->parent : happened->uuid;
    double gpu_instance = NO_INSTANCE, compute_instance = NO_INSTANCE;
    if (!(registration->types & happened->type) || strcmp(gpu, registration->uuid) != 0)
        return false;
    if (device) {
        figure_of(device, GPU_INSTANCE, &gpu_instance);
        figure_of(device, COMPUTE_INSTANCE, &compute_instance);
    }
    *event = (nvmlEventData_t){
        .device = handle_of(gpu),
        .eventType = happened->type,
        .eventData = happened->data,
        .gpuInstanceId = (unsigned int)gpu_instance,
        .computeInstanceId = (unsigned int)compute_instance,
    };
    return true;
}

static bool next_event(nvmlEventSet_t set, nvmlEventData_t *event)
{
    for (int i = 0; i < set->count; i++) {
        Registration *registration = &set->registered[i];
        if (registration->seen > the_state->event_count)
            registration->seen = the_state->event_count; /* the file was begun anew */
        while (registration->seen < the_state->event_count)
            if (is_wanted(registration, &the_state->events[registration->seen++], event))
                return true;
    }
    return false;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event,
                                 unsigned int timeout_ms)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS && !set)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS)
        return end(answer);
    for (long long deadline = now_ms() + timeout_ms; !next_event(set, event); pause_ms(POLL_MS))
        if (now_ms() >= deadline)
            return end(NVML_ERROR_TIMEOUT);
    return end(NVML_SUCCESS);
}
