/* Processes on devices: compute, MPS clients, graphics. They leave when they end. */
#include "processes.h"

#include <stdio.h>
#include <string.h>

#include "call.h"

static const double MIB = 1024.0 * 1024.0;

/* Whether a process still holds its memory: it is there and not a zombie. */
static bool lives(unsigned int pid)
{
    char path[32], line[512];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *name_end = strrchr(line, ')'); /* a name may hold anything */
    return name_end && name_end[1] == ' ' && name_end[2] != 'Z' && name_end[2] != 'X';
}

static bool is_on(const State *state, const Process *process, const Device *device)
{
    if (strcmp(process->uuid, device->uuid) == 0)
        return true;
    const Device *holder = find_device(state, process->uuid);
    return holder && strcmp(holder->parent, device->uuid) == 0;
}

static bool is_listed(const State *state, const Process *process, const Device *device)
{
    return is_on(state, process, device) && (process->foreign || lives(process->pid));
}

double held_mib(const State *state, const Device *device)
{
    double held = 0;
    for (int i = 0; i < state->process_count; i++) {
        const Process *process = &state->processes[i];
        bool counted = false;
        for (int j = 0; j < i && !counted; j++)
            counted = state->processes[j].pid == process->pid &&
                      strcmp(state->processes[j].uuid, process->uuid) == 0;
        if (!counted && process->mib > 0 && is_listed(state, process, device))
            held += process->mib;
    }
    return held;
}

/* NVML's protocol for lists: with too little room the caller is told how much it takes. */
static nvmlReturn_t list_processes(const char *function, nvmlDevice_t handle, ProcessList list,
                                   unsigned int *count, nvmlProcessInfo_t *current,
                                   nvmlProcessInfo_v1_t *oldest)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(function, handle, &device);
    unsigned int room = *count, found = 0;
    if (answer != NVML_SUCCESS)
        return end(answer);
    for (int i = 0; i < the_state->process_count; i++) {
        const Process *process = &the_state->processes[i];
        if (process->list != list || !is_listed(the_state, process, device))
            continue;
        const Device *holder = find_device(the_state, process->uuid);
        double gpu_instance = NO_INSTANCE, compute_instance = NO_INSTANCE;
        if (holder) {
            figure_of(holder, GPU_INSTANCE, &gpu_instance);
            figure_of(holder, COMPUTE_INSTANCE, &compute_instance);
        }
        unsigned long long bytes =
            process->mib < 0 ? NOT_AVAILABLE : (unsigned long long)(process->mib * MIB);
        if (found < room && current)
            current[found] = (nvmlProcessInfo_t){process->pid, bytes, (unsigned int)gpu_instance,
                                                 (unsigned int)compute_instance};
        if (found < room && oldest)
            oldest[found] = (nvmlProcessInfo_v1_t){process->pid, bytes};
        found++;
    }
    *count = found;
    return end(found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned int *count,
                                                  nvmlProcessInfo_v1_t *list)
{
    return list_processes(__func__, handle, COMPUTE, count, NULL, list);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned int *count,
                                                     nvmlProcessInfo_t *list)
{
    return list_processes(__func__, handle, COMPUTE, count, list, NULL);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t handle, unsigned int *count,
                                                     nvmlProcessInfo_v1_t *list)
{
    return list_processes(__func__, handle, MPS, count, NULL, list);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned int *count,
                                                        nvmlProcessInfo_t *list)
{
    return list_processes(__func__, handle, MPS, count, list, NULL);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t handle, unsigned int *count,
                                                   nvmlProcessInfo_v1_t *list)
{
    return list_processes(__func__, handle, GRAPHICS, count, NULL, list);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t handle, unsigned int *count,
                                                      nvmlProcessInfo_t *list)
{
    return list_processes(__func__, handle, GRAPHICS, count, list, NULL);
}

#ifndef OLD_DRIVER
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count,
                                                     nvmlProcessInfo_t *list)
{
    return list_processes(__func__, handle, COMPUTE, count, list, NULL);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count,
                                                        nvmlProcessInfo_t *list)
{
    return list_processes(__func__, handle, MPS, count, list, NULL);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned int *count,
                                                      nvmlProcessInfo_t *list)
{
    return list_processes(__func__, handle, GRAPHICS, count, list, NULL);
}
#endif
