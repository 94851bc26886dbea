/* What the state file says: devices and their figures, processes, events, trouble.
 *
 * The file is a log: a later line wins over an earlier one, so that tests and jobs
 * change the state by appending. README.md has the lines.
 */
#ifndef STAND_IN_STATE_H
#define STAND_IN_STATE_H

#include <stdbool.h>

enum { MAX_DEVICES = 128, MAX_PROCESSES = 1024, MAX_EVENTS = 1024, MAX_TROUBLES = 256 };
enum { MAX_LIMITS = 256, PATH_SIZE = 512 };
enum { UUID_SIZE = 96, NAME_SIZE = 96, BUS_ID_SIZE = 32, FUNCTION_SIZE = 64, VERSION_SIZE = 80 };

/* The figures of a device. Their names in the file stand in lines.c, in this order. */
typedef enum {
    MEMORY_TOTAL_MIB,
    MEMORY_RESERVED_MIB,
    MEMORY_BASE_MIB,
    MEMORY_USED_MIB,
    MEMORY_LIMITS,
    UTILIZATION_GPU,
    UTILIZATION_MEMORY,
    POWER_MW,
    POWER_LIMIT_MW,
    ENERGY_MJ,
    TEMPERATURE_C,
    TEMPERATURE_SHUTDOWN_C,
    TEMPERATURE_SLOWDOWN_C,
    CLOCKS_REASONS,
    PCIE_RX_KB_S,
    PCIE_TX_KB_S,
    ECC_MODE,
    ECC_VOLATILE_CORRECTED,
    ECC_VOLATILE_UNCORRECTED,
    ECC_AGGREGATE_CORRECTED,
    ECC_AGGREGATE_UNCORRECTED,
    REMAPPED_CORRECTED,
    REMAPPED_UNCORRECTED,
    REMAPPED_PENDING,
    REMAPPED_FAILED,
    RETIRED_SINGLE_BIT,
    RETIRED_DOUBLE_BIT,
    RETIRED_PENDING,
    RECOVERY_ACTION,
    FABRIC_STATE,
    FABRIC_STATUS,
    COMPUTE_MODE,
    PERSISTENCE_MODE,
    COMPUTE_MAJOR,
    COMPUTE_MINOR,
    EVENT_TYPES,
    MIG_MODE,
    MIG_MAX,
    GPU_INSTANCE,
    COMPUTE_INSTANCE,
    GPU_SLICES,
    COMPUTE_SLICES,
    MULTIPROCESSORS,
    GPM,
    GRAPHICS_UTIL,
    SM_UTIL,
    SM_OCCUPANCY,
    TENSOR_UTIL,
    DRAM_UTIL,
    FIGURES /* how many there are */
} Figure;

typedef struct {
    char uuid[UUID_SIZE];
    char parent[UUID_SIZE]; /* empty: a GPU; else the GPU of this MIG instance */
    char name[NAME_SIZE];
    char profile[NAME_SIZE];
    char bus_id[BUS_ID_SIZE];
    unsigned int slot; /* of a MIG instance in its GPU */
    bool gone;
    bool known[FIGURES];
    double figure[FIGURES];
} Device;

typedef enum { COMPUTE, MPS, GRAPHICS } ProcessList;

typedef struct {
    char uuid[UUID_SIZE];
    unsigned int pid;
    ProcessList list;
    double mib;   /* negative: cannot be told */
    bool foreign; /* of another PID namespace: listed whether or not such a pid lives here */
} Process;

typedef struct {
    char uuid[UUID_SIZE];
    unsigned long long type, data;
} Event;

/* The memory that the processes in a control group may hold on a device together. */
typedef struct {
    char uuid[UUID_SIZE];
    char group[PATH_SIZE];
    double soft, hard; /* bytes; negative: no limit */
} Limit;

typedef enum { FAIL, DELAY, HANG } TroubleKind;

typedef struct {
    TroubleKind kind;
    char function[FUNCTION_SIZE]; /* a shell pattern */
    char uuid[UUID_SIZE];         /* empty: whatever the device */
    double value;                 /* an error number, seconds, or 1 */
} Trouble;

typedef struct {
    char driver_version[VERSION_SIZE];
    char nvml_version[VERSION_SIZE];
    int cuda_version;
    Device devices[MAX_DEVICES];
    int device_count; /* the ones that are gone included */
    Process processes[MAX_PROCESSES];
    int process_count;
    Limit limits[MAX_LIMITS];
    int limit_count;
    Event events[MAX_EVENTS];
    int event_count;
    Trouble troubles[MAX_TROUBLES];
    int trouble_count;
} State;

typedef enum { STATE_READ, STATE_MISSING, STATE_WRONG } StateRead;

/* The file that the environment names, read anew if it has changed. One caller at a time. */
StateRead load_state(const State **state);

/* Append one line to the file; false where that cannot be done. */
bool append_to_state(const char *line);

/* A reader of a line returns NULL, or what is wrong with the line. lines.c has the readers. */
typedef const char *Complaint;
Complaint read_line(State *state, char *line);

/* A device, whether or not it is gone, or NULL. */
Device *find_any(State *state, const char *uuid);

/* A device that is there, or NULL. */
const Device *find_device(const State *state, const char *uuid);
bool is_instance(const Device *device);

/* The last matching line of this kind, or NULL. An empty `uuid` matches lines without one. */
const Trouble *find_trouble(const State *state, TroubleKind kind, const char *function,
                            const char *uuid);

#endif
