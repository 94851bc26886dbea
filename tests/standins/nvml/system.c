/* The library itself: opening, closing, versions, words for errors. */
#include "call.h"

/* Not NVML's: a process that tests one driver after another begins anew. */
NVML_API void stand_in_reset(void);

void stand_in_reset(void)
{
    begin(__func__);
    count_user(-users());
    end(NVML_SUCCESS);
}

nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS)
        count_user(+1);
    return end(answer);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS)
        count_user(+1);
    return end(answer);
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t answer = begin(__func__);
    if (users() > 0)
        count_user(-1);
    return end(answer);
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "The operation was successful";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS)
        answer = give_text(the_state->driver_version, version, length);
    return end(answer);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS)
        answer = give_text(the_state->nvml_version, version, length);
    return end(answer);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS)
        *version = the_state->cuda_version;
    return end(answer);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    nvmlReturn_t answer = begin(__func__);
    if (answer == NVML_SUCCESS)
        *version = the_state->cuda_version;
    return end(answer);
}
