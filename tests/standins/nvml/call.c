/* The course of a call: its trouble, its state, its handles. */
#define _GNU_SOURCE
#include "call.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A hang ends by itself at last, so that no test leaves a process for ever. */
static const double HANG_MAX_S = 600;
enum { POLL_MS = 10, MAX_HANDLES = 1024 };
static const char CALLS_VARIABLE[] = "STAND_IN_NVML_CALLS";

struct Handle {
    char uuid[UUID_SIZE];
};

const State *the_state;
static StateRead state_read;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct Handle handles[MAX_HANDLES];
static int handle_count;
static int user_count;

/* ------------------------------------------------------------------ waiting */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void pause_ms(int milliseconds)
{
    struct timespec length = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    pthread_mutex_unlock(&lock);
    nanosleep(&length, NULL);
    pthread_mutex_lock(&lock);
    state_read = load_state(&the_state);
}

/* What the state makes of this call: `uuid` is empty for trouble of whatever device. */
static nvmlReturn_t suffer(const char *function, const char *uuid)
{
    const Trouble *trouble = find_trouble(the_state, DELAY, function, uuid);
    double started = now_s();
    if (trouble) {
        double delay_s = trouble->value;
        while (now_s() - started < delay_s)
            pause_ms(POLL_MS);
    }
    while ((trouble = find_trouble(the_state, HANG, function, uuid)) && trouble->value != 0) {
        if (now_s() - started > HANG_MAX_S)
            return NVML_ERROR_TIMEOUT;
        pause_ms(POLL_MS);
    }
    trouble = find_trouble(the_state, FAIL, function, uuid);
    return trouble ? (nvmlReturn_t)trouble->value : NVML_SUCCESS;
}

/* ------------------------------------------------------------------ a call */

/* One line per call, in the file that the environment names, if any. */
static void note_call(const char *function)
{
    const char *path = getenv(CALLS_VARIABLE);
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file >= 0) {
        dprintf(file, "%d %s\n", (int)getpid(), function);
        close(file);
    }
}

nvmlReturn_t begin(const char *function)
{
    pthread_mutex_lock(&lock);
    note_call(function);
    state_read = load_state(&the_state);
    if (state_read == STATE_READ) {
        nvmlReturn_t trouble = suffer(function, "");
        if (trouble != NVML_SUCCESS)
            return trouble;
    }
    if (state_read == STATE_MISSING)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (state_read == STATE_WRONG)
        return NVML_ERROR_UNKNOWN;
    bool opens = strncmp(function, "nvmlInit", strlen("nvmlInit")) == 0;
    return user_count > 0 || opens ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t begin_on(const char *function, nvmlDevice_t handle, const Device **device)
{
    nvmlReturn_t answer = begin(function);
    if (answer != NVML_SUCCESS)
        return answer;
    *device = device_of(handle);
    if (!*device)
        return NVML_ERROR_INVALID_ARGUMENT;
    answer = trouble_on(function, *device);
    if (answer != NVML_SUCCESS)
        return answer;
    *device = device_of(handle); /* the state may have been read anew */
    return *device ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t end(nvmlReturn_t answer)
{
    pthread_mutex_unlock(&lock);
    return answer;
}

/* A MIG instance has its GPU's trouble too: an instance of a lost GPU is lost. */
nvmlReturn_t trouble_on(const char *function, const Device *device)
{
    char uuid[UUID_SIZE], parent[UUID_SIZE];
    memcpy(uuid, device->uuid, UUID_SIZE);
    memcpy(parent, device->parent, UUID_SIZE);
    nvmlReturn_t answer = suffer(function, uuid);
    return answer == NVML_SUCCESS && parent[0] ? suffer(function, parent) : answer;
}

void count_user(int change)
{
    user_count += change;
}

int users(void)
{
    return user_count;
}

/* ------------------------------------------------------------------ handles */

nvmlDevice_t handle_of(const char *uuid)
{
    for (int i = 0; i < handle_count; i++)
        if (strcmp(handles[i].uuid, uuid) == 0)
            return &handles[i];
    if (handle_count == MAX_HANDLES)
        return NULL;
    struct Handle *made = &handles[handle_count++];
    memcpy(made->uuid, uuid, strnlen(uuid, UUID_SIZE - 1)); /* the rest is zero */
    return made;
}

const Device *device_of(nvmlDevice_t handle)
{
    for (int i = 0; i < handle_count; i++)
        if (handle == &handles[i])
            return find_device(the_state, handles[i].uuid);
    return NULL;
}

/* ------------------------------------------------------------------ answers */

nvmlReturn_t figure_of(const Device *device, Figure figure, double *value)
{
    if (!device->known[figure])
        return NVML_ERROR_NOT_SUPPORTED;
    *value = device->figure[figure];
    return NVML_SUCCESS;
}

nvmlReturn_t give_uint(const char *function, nvmlDevice_t handle, Figure figure, unsigned int *to)
{
    const Device *device;
    double value = 0;
    nvmlReturn_t answer = begin_on(function, handle, &device);
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, figure, &value);
    if (answer == NVML_SUCCESS)
        *to = (unsigned int)value;
    return end(answer);
}

nvmlReturn_t give_ulonglong(const char *function, nvmlDevice_t handle, Figure figure,
                            unsigned long long *to)
{
    const Device *device;
    double value = 0;
    nvmlReturn_t answer = begin_on(function, handle, &device);
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, figure, &value);
    if (answer == NVML_SUCCESS)
        *to = (unsigned long long)value;
    return end(answer);
}

nvmlReturn_t give_text(const char *text, char *to, unsigned int length)
{
    int needed = snprintf(to, length, "%s", text);
    return needed >= 0 && (unsigned int)needed < length ? NVML_SUCCESS
                                                         : NVML_ERROR_INSUFFICIENT_SIZE;
}
