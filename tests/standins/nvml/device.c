/* Devices: finding them, what they are, memory, load, power, modes. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "processes.h"

static const double MIB = 1024.0 * 1024.0;

/* ------------------------------------------------------------------ finding */

/* GPUs are numbered in the order of the file; one that is gone moves the others up. */
static bool is_gpu(int place)
{
    const Device *device = &the_state->devices[place];
    return !device->gone && !is_instance(device);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS) {
        *count = 0;
        for (int i = 0; i < the_state->device_count; i++)
            *count += is_gpu(i);
    }
    return end(answer);
}

static nvmlReturn_t give_handle(const char *function, const Device *device, nvmlDevice_t *handle)
{
    nvmlDevice_t found = handle_of(device->uuid);
    nvmlReturn_t answer = trouble_on(function, device);
    if (answer == NVML_SUCCESS)
        *handle = found;
    return found ? answer : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer != NVML_SUCCESS)
        return end(answer);
    for (int i = 0; i < the_state->device_count; i++)
        if (is_gpu(i) && index-- == 0)
            return end(give_handle(__func__, &the_state->devices[i], handle));
    return end(NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer != NVML_SUCCESS)
        return end(answer);
    const Device *device = find_device(the_state, uuid);
    return end(device ? give_handle(__func__, device, handle) : NVML_ERROR_NOT_FOUND);
}

/* ------------------------------------------------------------------ what it is */

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int length)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS)
        answer = give_text(device->uuid, uuid, length);
    return end(answer);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int length)
{
    const Device *device;
    char full[2 * NAME_SIZE + sizeof " MIG "];
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer != NVML_SUCCESS)
        return end(answer);
    if (is_instance(device)) {
        const Device *gpu = find_device(the_state, device->parent);
        snprintf(full, sizeof full, "%s MIG %s", gpu->name, device->profile);
    } else {
        snprintf(full, sizeof full, "%s", device->name);
    }
    return end(give_text(full, name, length));
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *index)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer != NVML_SUCCESS)
        return end(answer);
    *index = device->slot;
    if (!is_instance(device))
        for (int i = 0; &the_state->devices[i] != device; i++)
            *index += is_gpu(i);
    return end(answer);
}

/* The number in /dev/nvidiaN: the place among all GPUs that were ever there. */
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int *number)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && is_instance(device))
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer != NVML_SUCCESS)
        return end(answer);
    *number = 0;
    for (int i = 0; &the_state->devices[i] != device; i++)
        *number += !is_instance(&the_state->devices[i]);
    return end(answer);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *pci)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer != NVML_SUCCESS)
        return end(answer);
    memset(pci, 0, sizeof *pci);
    if (sscanf(device->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
        return end(NVML_ERROR_NOT_SUPPORTED);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04x:%02x:%02x.0", pci->domain & 0xFFFF,
             pci->bus & 0xFF, pci->device & 0xFF);
    return end(give_text(device->bus_id, pci->busId, sizeof pci->busId));
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major, int *minor)
{
    const Device *device;
    double high = 0, low = 0;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, COMPUTE_MAJOR, &high);
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, COMPUTE_MINOR, &low);
    *major = (int)high;
    *minor = (int)low;
    return end(answer);
}

/* ------------------------------------------------------------------ memory */

/* In bytes. `used` is what the state says, or else what the processes hold and a base. */
static nvmlReturn_t memory_of(const Device *device, double *total, double *reserved, double *used)
{
    nvmlReturn_t answer = figure_of(device, MEMORY_TOTAL_MIB, total);
    if (answer != NVML_SUCCESS)
        return answer;
    *reserved = *used = 0;
    figure_of(device, MEMORY_RESERVED_MIB, reserved);
    if (figure_of(device, MEMORY_USED_MIB, used) != NVML_SUCCESS) {
        figure_of(device, MEMORY_BASE_MIB, used);
        *used += held_mib(the_state, device);
    }
    *total *= MIB;
    *reserved *= MIB;
    *used *= MIB;
    return NVML_SUCCESS;
}

static unsigned long long bytes_left(double total, double taken)
{
    return total > taken ? (unsigned long long)(total - taken) : 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory)
{
    const Device *device;
    double total, reserved, used;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS)
        answer = memory_of(device, &total, &reserved, &used);
    if (answer != NVML_SUCCESS)
        return end(answer);
    memory->total = (unsigned long long)total;
    memory->used = (unsigned long long)(used + reserved);
    memory->free = bytes_left(total, used + reserved);
    return end(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory)
{
    const Device *device;
    double total, reserved, used;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && memory->version != STRUCT_VERSION(nvmlMemory_v2_t, 2))
        answer = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (answer == NVML_SUCCESS)
        answer = memory_of(device, &total, &reserved, &used);
    if (answer != NVML_SUCCESS)
        return end(answer);
    memory->total = (unsigned long long)total;
    memory->reserved = (unsigned long long)reserved;
    memory->used = (unsigned long long)used;
    memory->free = bytes_left(total, used + reserved);
    return end(NVML_SUCCESS);
}

/* ------------------------------------------------------------------ load and power */

/* Not supported while the GPU is in MIG mode, neither on it nor on its instances. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *busy)
{
    const Device *device;
    double mig = 0, gpu = 0, memory = 0;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer != NVML_SUCCESS)
        return end(answer);
    figure_of(device, MIG_MODE, &mig);
    if (mig != 0 || is_instance(device))
        return end(NVML_ERROR_NOT_SUPPORTED);
    answer = figure_of(device, UTILIZATION_GPU, &gpu);
    figure_of(device, UTILIZATION_MEMORY, &memory);
    busy->gpu = (unsigned int)gpu;
    busy->memory = (unsigned int)memory;
    return end(answer);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned int *milliwatts)
{
    return give_uint(__func__, handle, POWER_MW, milliwatts);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t handle, unsigned int *milliwatts)
{
    return give_uint(__func__, handle, POWER_LIMIT_MW, milliwatts);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t handle,
                                                 unsigned long long *millijoules)
{
    return give_ulonglong(__func__, handle, ENERGY_MJ, millijoules);
}

/* Not told of MIG instances, which have no link of their own. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t handle, unsigned int counter,
                                         unsigned int *kb_per_s)
{
    const Device *device;
    double found = 0;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && counter > 1)
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, counter == 0 ? PCIE_TX_KB_S : PCIE_RX_KB_S, &found);
    *kb_per_s = (unsigned int)found;
    return end(answer);
}

/* ------------------------------------------------------------------ modes */

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t handle, unsigned int *mode)
{
    return give_uint(__func__, handle, COMPUTE_MODE, mode);
}

/* Written to the state file: the mode is the GPU's, and other processes see it. */
nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t handle, unsigned int mode)
{
    const Device *device;
    char line[UUID_SIZE + sizeof "set  compute_mode 4294967295\n"];
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && !device->known[COMPUTE_MODE])
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer != NVML_SUCCESS)
        return end(answer);
    snprintf(line, sizeof line, "set %s compute_mode %u\n", device->uuid, mode);
    return end(append_to_state(line) ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, unsigned int *mode)
{
    return give_uint(__func__, handle, PERSISTENCE_MODE, mode);
}
