/* The part of NVML's binary interface that this stand-in offers: types and functions.
 *
 * Written from the layouts that the Python package nvidia-ml-py passes. Not NVIDIA's header.
 */
#ifndef STAND_IN_NVML_H
#define STAND_IN_NVML_H

#include <stddef.h>

#define NVML_API __attribute__((visibility("default")))

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_NO_DATA = 21,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct Handle *nvmlDevice_t;
typedef struct EventSet *nvmlEventSet_t;
typedef struct Sample *nvmlGpmSample_t;

#define NO_INSTANCE 0xFFFFFFFFu          /* no MIG instance id */
#define NOT_AVAILABLE 0xFFFFFFFFFFFFFFFFull /* a process's memory that cannot be told */

/* A versioned struct begins with its size and, in the top byte, its version. */
#define STRUCT_VERSION(type, number) ((unsigned int)(sizeof(type) | ((unsigned int)(number) << 24)))

typedef struct {
    unsigned long long total, free, used; /* bytes; `used` holds the driver's reserve too */
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used; /* bytes */
} nvmlMemory_v2_t;

typedef struct {
    unsigned int gpu, memory; /* percent */
} nvmlUtilization_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int version;
    unsigned int sensorType;
    int temperature; /* Celsius */
} nvmlTemperature_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory; /* bytes or NOT_AVAILABLE */
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t; /* the same in _v2 and _v3 */

typedef struct {
    unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount;
    unsigned int sharedEncoderCount, sharedJpegCount, sharedOfaCount;
    unsigned int gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned int valueType; /* 1: an unsigned int */
    nvmlReturn_t nvmlReturn;
    union {
        double dVal;
        unsigned int uiVal;
        unsigned long long ullVal;
    } value;
} nvmlFieldValue_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status; /* means something once the state is "completed" */
    unsigned int cliqueId, state, healthMask;
} nvmlGpuFabricInfo_v2_t; /* version 3 has one byte more, a summary of the mask */

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId, state, healthMask;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

#define NO_LIMIT 0xFFFFFFFFFFFFFFFFull

typedef struct {
    const char *nameSpace;                 /* the folder of a control group */
    unsigned long long softLimit, hardLimit; /* bytes */
} nvmlSetMemoryLimits_v1_t;

typedef struct {
    const char *nameSpace;
    unsigned long long softLimit, hardLimit, currentUsed;
} nvmlGetMemoryLimits_v1_t;

#define GPM_VERSION 1u

typedef struct {
    unsigned int version;
    unsigned int isSupportedDevice;
} nvmlGpmSupport_t;

typedef struct {
    unsigned int metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct {
        char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned int version;
    unsigned int numMetrics;
    nvmlGpmSample_t sample1, sample2;
    nvmlGpmMetric_t metrics[]; /* as long as the caller's header has it; numMetrics are read */
} nvmlGpmMetricsGet_t;

/* system.c */
NVML_API nvmlReturn_t nvmlInit_v2(void);
NVML_API nvmlReturn_t nvmlInitWithFlags(unsigned int flags);
NVML_API nvmlReturn_t nvmlShutdown(void);
NVML_API const char *nvmlErrorString(nvmlReturn_t result);
NVML_API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length);
NVML_API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length);
NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version);
NVML_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);

/* device.c */
NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *handle);
NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *handle);
NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned int length);
NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned int length);
NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int *index);
NVML_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int *number);
NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *pci);
NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory);
NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory);
NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *busy);
NVML_API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned int *milliwatts);
NVML_API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t handle, unsigned int *milliwatts);
NVML_API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t handle,
                                                          unsigned long long *millijoules);
NVML_API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t handle, unsigned int counter,
                                                  unsigned int *kb_per_s);
NVML_API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t handle, unsigned int *mode);
NVML_API nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t handle, unsigned int mode);
NVML_API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, unsigned int *mode);
NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major,
                                                         int *minor);

/* health.c */
NVML_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, unsigned int sensor,
                                               unsigned int *celsius);
NVML_API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_v1_t *reading);
NVML_API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t handle, unsigned int kind,
                                                        unsigned int *celsius);
NVML_API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t handle, unsigned int *current,
                                           unsigned int *pending);
NVML_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, unsigned int error,
                                                  unsigned int counter, unsigned long long *count);
NVML_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int *corrected,
                                                unsigned int *uncorrected, unsigned int *pending,
                                                unsigned int *failed);
NVML_API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t handle, unsigned int cause,
                                                unsigned int *count,
                                                unsigned long long *addresses);
NVML_API nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t handle,
                                                             unsigned int *pending);
NVML_API nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t handle,
                                                                unsigned long long *reasons);
NVML_API nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t handle,
                                                             unsigned long long *reasons);
NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count,
                                               nvmlFieldValue_t *values);
NVML_API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t handle,
                                                  nvmlGpuFabricInfo_v2_t *info);

/* processes.c */
NVML_API nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t handle,
                                                   nvmlSetMemoryLimits_v1_t *limits);
NVML_API nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t handle,
                                                   nvmlGetMemoryLimits_v1_t *limits);
NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned int *count,
                                                           nvmlProcessInfo_v1_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t handle,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t handle,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_v1_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t handle,
                                                                 unsigned int *count,
                                                                 nvmlProcessInfo_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t handle,
                                                                 unsigned int *count,
                                                                 nvmlProcessInfo_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t handle,
                                                            unsigned int *count,
                                                            nvmlProcessInfo_v1_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t handle,
                                                               unsigned int *count,
                                                               nvmlProcessInfo_t *list);
NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle,
                                                               unsigned int *count,
                                                               nvmlProcessInfo_t *list);

/* mig.c */
NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned int *current,
                                           unsigned int *pending);
NVML_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int *count);
NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index,
                                                          nvmlDevice_t *instance);
NVML_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t handle,
                                                                   nvmlDevice_t *parent);
NVML_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned int *is_mig);
NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned int *id);
NVML_API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned int *id);
NVML_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle,
                                                 nvmlDeviceAttributes_t *attributes);

/* gpm.c */
NVML_API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t handle, nvmlGpmSupport_t *support);
NVML_API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample);
NVML_API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample);
NVML_API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t handle, nvmlGpmSample_t sample);
NVML_API nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t handle, unsigned int gpu_instance,
                                          nvmlGpmSample_t sample);
NVML_API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request);

/* events.c */
NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set);
NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
NVML_API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle,
                                                       unsigned long long *types);
NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types,
                                               nvmlEventSet_t set);
NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event,
                                          unsigned int timeout_ms);

#endif
