/* Processes on devices: compute, MPS clients, graphics. They leave when they end. */
#include "processes.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

/* ------------------------------------------------------------------ control groups */

static nvmlReturn_t begin_on_group(const char *function, nvmlDevice_t handle, const char *group,
                                   const Device **device)
{
    double offered = 0;
    struct stat status;
    nvmlReturn_t answer = begin_on(function, handle, device);
    if (answer != NVML_SUCCESS)
        return answer;
    if (is_instance(*device) || figure_of(*device, MEMORY_LIMITS, &offered) != NVML_SUCCESS)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!group || stat(group, &status) != 0 || !S_ISDIR(status.st_mode))
        return NVML_ERROR_NOT_FOUND;
    return NVML_SUCCESS;
}

/* What the processes that the group's file names hold on a device, in bytes. */
static double used_in(const char *group, const Device *device)
{
    char path[PATH_SIZE + sizeof "/cgroup.procs"];
    double held = 0;
    unsigned int pid;
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fscanf(file, "%u", &pid) == 1)
        for (int i = 0; i < the_state->process_count; i++) {
            const Process *process = &the_state->processes[i];
            if (process->pid == pid && process->mib > 0 && is_on(the_state, process, device))
                held += process->mib;
        }
    fclose(file);
    return held * 1024 * 1024;
}

/* Written to the state file, as the limit is the group's. Not below what is used there. */
nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t handle, nvmlSetMemoryLimits_v1_t *limits)
{
    const Device *device;
    char line[UUID_SIZE + PATH_SIZE + 96];
    nvmlReturn_t answer = begin_on_group(__func__, handle, limits->nameSpace, &device);
    if (answer == NVML_SUCCESS && used_in(limits->nameSpace, device) > (double)limits->hardLimit)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS)
        return end(answer);
    double hard = limits->hardLimit == NO_LIMIT ? -1 : (double)limits->hardLimit;
    snprintf(line, sizeof line, "limit %s %.0f %.0f %s\n", device->uuid,
             (double)limits->softLimit, hard, limits->nameSpace);
    return end(append_to_state(line) ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION);
}

/* The limit of the group, or of the nearest one above; without any: not supported. */
nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t handle, nvmlGetMemoryLimits_v1_t *limits)
{
    const Device *device;
    char group[PATH_SIZE];
    nvmlReturn_t answer = begin_on_group(__func__, handle, limits->nameSpace, &device);
    if (answer != NVML_SUCCESS)
        return end(answer);
    snprintf(group, sizeof group, "%s", limits->nameSpace);
    for (char *slash; group[0]; *slash = '\0') {
        for (int i = 0; i < the_state->limit_count; i++) {
            const Limit *limit = &the_state->limits[i];
            if (strcmp(limit->group, group) != 0 || strcmp(limit->uuid, device->uuid) != 0)
                continue;
            limits->softLimit = (unsigned long long)limit->soft;
            limits->hardLimit = limit->hard < 0 ? NO_LIMIT : (unsigned long long)limit->hard;
            limits->currentUsed = (unsigned long long)used_in(limits->nameSpace, device);
            return end(NVML_SUCCESS);
        }
        slash = strrchr(group, '/');
        if (!slash)
            break;
    }
    return end(NVML_ERROR_NOT_SUPPORTED);
}
