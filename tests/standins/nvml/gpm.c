/* GPM: figures of hardware counters between two samples (Hopper and newer).
 *
 * A figure is the state's at the later sample, so that a test reads what it wrote last. Two
 * samples of different devices, or too close together, give no figure.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"


static const double APART_S = 0.1;

enum {
    METRIC_GRAPHICS = 1,
    METRIC_SM = 2,
    METRIC_OCCUPANCY = 3,
    METRIC_TENSOR = 5,
    METRIC_DRAM = 10,
    METRIC_PCIE_TX = 20,
    METRIC_PCIE_RX = 21
};

struct Sample {
    char uuid[UUID_SIZE];
    double taken_s;
    bool known[FIGURES];
    double figure[FIGURES];
};

static bool is_offered(const Device *gpu)
{
    return gpu->known[GPM] && gpu->figure[GPM] != 0;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t handle, nvmlGpmSupport_t *support)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && support->version != GPM_VERSION)
        answer = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (answer == NVML_SUCCESS)
        support->isSupportedDevice = is_offered(device);
    return end(answer);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS) {
        *sample = calloc(1, sizeof **sample);
        answer = *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
    }
    return end(answer);
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    nvmlReturn_t answer = begin(__func__);
    free(sample);
    return end(answer);
}

static void take(const Device *device, nvmlGpmSample_t sample)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sample->taken_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    memcpy(sample->uuid, device->uuid, sizeof sample->uuid);
    memcpy(sample->known, device->known, sizeof sample->known);
    memcpy(sample->figure, device->figure, sizeof sample->figure);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t handle, nvmlGpmSample_t sample)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && !is_offered(device))
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer == NVML_SUCCESS)
        take(device, sample);
    return end(answer);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t handle, unsigned int gpu_instance,
                                 nvmlGpmSample_t sample)
{
    const Device *gpu;
    nvmlReturn_t answer = begin_on(__func__, handle, &gpu);
    if (answer == NVML_SUCCESS && !is_offered(gpu))
        answer = NVML_ERROR_NOT_SUPPORTED;
    if (answer != NVML_SUCCESS)
        return end(answer);
    for (int i = 0; i < the_state->device_count; i++) {
        const Device *device = &the_state->devices[i];
        if (!device->gone && strcmp(device->parent, gpu->uuid) == 0 &&
            device->known[GPU_INSTANCE] && device->figure[GPU_INSTANCE] == gpu_instance) {
            take(device, sample);
            return end(NVML_SUCCESS);
        }
    }
    return end(NVML_ERROR_NOT_FOUND);
}

static Figure figure_for(unsigned int metric)
{
    switch (metric) {
    case METRIC_GRAPHICS: return GRAPHICS_UTIL;
    case METRIC_SM: return SM_UTIL;
    case METRIC_OCCUPANCY: return SM_OCCUPANCY;
    case METRIC_TENSOR: return TENSOR_UTIL;
    case METRIC_DRAM: return DRAM_UTIL;
    case METRIC_PCIE_TX: return PCIE_TX_KB_S;
    case METRIC_PCIE_RX: return PCIE_RX_KB_S;
    default: return FIGURES;
    }
}

static void measure(nvmlGpmMetric_t *metric, const struct Sample *first, const struct Sample *second)
{
    Figure figure = figure_for(metric->metricId);
    metric->value = 0;
    if (second->taken_s - first->taken_s < APART_S)
        metric->nvmlReturn = NVML_ERROR_NO_DATA;
    else if (figure == FIGURES || !second->known[figure])
        metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    else {
        metric->nvmlReturn = NVML_SUCCESS;
        metric->value = second->figure[figure];
        if (figure == PCIE_TX_KB_S || figure == PCIE_RX_KB_S)
            metric->value /= 1024; /* in MiB a second */
    }
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer != NVML_SUCCESS)
        return end(answer);
    const struct Sample *first = request->sample1, *second = request->sample2;
    if (request->version != GPM_VERSION)
        return end(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (!first || !second || !first->uuid[0] || strcmp(first->uuid, second->uuid) != 0)
        return end(NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned int i = 0; i < request->numMetrics; i++)
        measure(&request->metrics[i], first, second);
    return end(NVML_SUCCESS);
}
