/* MIG: the mode of a GPU, and its instances. */
#include <string.h>

#include "call.h"

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned int *current,
                                  unsigned int *pending)
{
    nvmlReturn_t answer = give_uint(__func__, handle, MIG_MODE, current);
    if (answer == NVML_SUCCESS)
        *pending = *current;
    return answer;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int *count)
{
    return give_uint(__func__, handle, MIG_MAX, count);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index,
                                                 nvmlDevice_t *instance)
{
    const Device *gpu;
    nvmlReturn_t answer = begin_on(__func__, handle, &gpu);
    if (answer != NVML_SUCCESS)
        return end(answer);
    for (int i = 0; i < the_state->device_count; i++) {
        const Device *device = &the_state->devices[i];
        if (!device->gone && device->slot == index && strcmp(device->parent, gpu->uuid) == 0) {
            *instance = handle_of(device->uuid);
            return end(*instance ? NVML_SUCCESS : NVML_ERROR_MEMORY);
        }
    }
    return end(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t handle,
                                                          nvmlDevice_t *parent)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && !is_instance(device))
        answer = NVML_ERROR_INVALID_ARGUMENT;
    if (answer != NVML_SUCCESS)
        return end(answer);
    *parent = handle_of(device->parent);
    return end(*parent ? NVML_SUCCESS : NVML_ERROR_MEMORY);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned int *is_mig)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS)
        *is_mig = is_instance(device);
    return end(answer);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id)
{
    return give_uint(__func__, handle, GPU_INSTANCE, id);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned int *id)
{
    return give_uint(__func__, handle, COMPUTE_INSTANCE, id);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, nvmlDeviceAttributes_t *attributes)
{
    const Device *device;
    double gpu_slices = 0, compute_slices = 0, multiprocessors = 0, memory_mib = 0;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && !is_instance(device))
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer != NVML_SUCCESS)
        return end(answer);
    figure_of(device, GPU_SLICES, &gpu_slices);
    figure_of(device, COMPUTE_SLICES, &compute_slices);
    figure_of(device, MULTIPROCESSORS, &multiprocessors);
    figure_of(device, MEMORY_TOTAL_MIB, &memory_mib);
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = (unsigned int)multiprocessors,
        .gpuInstanceSliceCount = (unsigned int)gpu_slices,
        .computeInstanceSliceCount = (unsigned int)compute_slices,
        .memorySizeMB = (unsigned long long)memory_mib,
    };
    return end(NVML_SUCCESS);
}
