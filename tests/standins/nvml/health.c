/* What may be wrong with a device: heat, slowed clocks, memory errors, its NVLink fabric. */
#include "call.h"

/* ------------------------------------------------------------------ heat */

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, unsigned int sensor,
                                      unsigned int *celsius)
{
    (void)sensor; /* there is only the GPU's own */
    return give_uint(__func__, handle, TEMPERATURE_C, celsius);
}

/* `kind`: 0 where the GPU shuts itself down, 1 where it slows down. */
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t handle, unsigned int kind,
                                               unsigned int *celsius)
{
    Figure figure = kind == 0 ? TEMPERATURE_SHUTDOWN_C : TEMPERATURE_SLOWDOWN_C;
    return give_uint(__func__, handle, figure, celsius);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t handle,
                                                       unsigned long long *reasons)
{
    return give_ulonglong(__func__, handle, CLOCKS_REASONS, reasons);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_v1_t *reading)
{
    const Device *device;
    double celsius = 0;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && reading->version != STRUCT_VERSION(nvmlTemperature_v1_t, 1))
        answer = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, TEMPERATURE_C, &celsius);
    if (answer == NVML_SUCCESS)
        reading->temperature = (int)celsius;
    return end(answer);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t handle,
                                                    unsigned long long *reasons)
{
    return give_ulonglong(__func__, handle, CLOCKS_REASONS, reasons);
}

/* ------------------------------------------------------------------ memory errors */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t handle, unsigned int *current,
                                  unsigned int *pending)
{
    nvmlReturn_t answer = give_uint(__func__, handle, ECC_MODE, current);
    if (answer == NVML_SUCCESS)
        *pending = *current;
    return answer;
}

/* `error`: 0 corrected, 1 uncorrected. `counter`: 0 since the driver's start, 1 for ever. */
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned int error,
                                         unsigned int counter, unsigned long long *count)
{
    static const Figure FIGURE[2][2] = {
        {ECC_VOLATILE_CORRECTED, ECC_AGGREGATE_CORRECTED},
        {ECC_VOLATILE_UNCORRECTED, ECC_AGGREGATE_UNCORRECTED},
    };
    if (error > 1 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    return give_ulonglong(__func__, handle, FIGURE[error][counter], count);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int *corrected,
                                       unsigned int *uncorrected, unsigned int *pending,
                                       unsigned int *failed)
{
    static const Figure FIGURE[4] = {REMAPPED_CORRECTED, REMAPPED_UNCORRECTED, REMAPPED_PENDING,
                                     REMAPPED_FAILED};
    unsigned int *const to[4] = {corrected, uncorrected, pending, failed};
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    for (int i = 0; i < 4 && answer == NVML_SUCCESS; i++) {
        double value = 0;
        answer = figure_of(device, FIGURE[i], &value);
        *to[i] = (unsigned int)value;
    }
    return end(answer);
}

/* `cause`: 0 several single-bit errors, 1 a double-bit error. The addresses are made up. */
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t handle, unsigned int cause,
                                       unsigned int *count, unsigned long long *addresses)
{
    const Device *device;
    double pages = 0;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, cause == 0 ? RETIRED_SINGLE_BIT : RETIRED_DOUBLE_BIT, &pages);
    if (answer != NVML_SUCCESS)
        return end(answer);
    unsigned int room = *count;
    *count = (unsigned int)pages;
    for (unsigned int i = 0; addresses && i < *count && i < room; i++)
        addresses[i] = 0x10000ull * (i + 1);
    return end(*count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t handle, unsigned int *pending)
{
    return give_uint(__func__, handle, RETIRED_PENDING, pending);
}

/* ------------------------------------------------------------------ fields by number */

enum { FIELD_RECOVERY_ACTION = 230, TYPE_UNSIGNED_INT = 1 };

/* Each value has a result of its own; a field that is not known here is not supported. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t *values)
{
    const Device *device;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    for (int i = 0; i < count && answer == NVML_SUCCESS; i++) {
        double number = 0;
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        if (values[i].fieldId == FIELD_RECOVERY_ACTION)
            values[i].nvmlReturn = figure_of(device, RECOVERY_ACTION, &number);
        values[i].valueType = TYPE_UNSIGNED_INT;
        values[i].value.ullVal = (unsigned int)number;
    }
    return end(answer);
}

/* ------------------------------------------------------------------ the NVLink fabric */

/* Versions 2 and 3: what is filled in stands at the same place in both. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t handle, nvmlGpuFabricInfo_v2_t *info)
{
    const Device *device;
    double state = 0, status = 0;
    nvmlReturn_t answer = begin_on(__func__, handle, &device);
    if (answer == NVML_SUCCESS && info->version != STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2) &&
        info->version != STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3))
        answer = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (answer == NVML_SUCCESS)
        answer = figure_of(device, FABRIC_STATE, &state);
    if (answer != NVML_SUCCESS)
        return end(answer);
    figure_of(device, FABRIC_STATUS, &status);
    info->state = (unsigned int)state;
    info->status = (nvmlReturn_t)status;
    return end(NVML_SUCCESS);
}
