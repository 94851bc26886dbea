/* Reads one line of the state file. README.md has the lines. */
#include "state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const FIGURE_NAMES[FIGURES] = {
    [MEMORY_TOTAL_MIB] = "memory_total_mib",
    [MEMORY_RESERVED_MIB] = "memory_reserved_mib",
    [MEMORY_BASE_MIB] = "memory_base_mib",
    [MEMORY_USED_MIB] = "memory_used_mib",
    [MEMORY_LIMITS] = "memory_limits",
    [UTILIZATION_GPU] = "utilization_gpu",
    [UTILIZATION_MEMORY] = "utilization_memory",
    [POWER_MW] = "power_mw",
    [POWER_LIMIT_MW] = "power_limit_mw",
    [ENERGY_MJ] = "energy_mj",
    [TEMPERATURE_C] = "temperature_c",
    [TEMPERATURE_SHUTDOWN_C] = "temperature_shutdown_c",
    [TEMPERATURE_SLOWDOWN_C] = "temperature_slowdown_c",
    [CLOCKS_REASONS] = "clocks_reasons",
    [PCIE_RX_KB_S] = "pcie_rx_kb_s",
    [PCIE_TX_KB_S] = "pcie_tx_kb_s",
    [ECC_MODE] = "ecc_mode",
    [ECC_VOLATILE_CORRECTED] = "ecc_volatile_corrected",
    [ECC_VOLATILE_UNCORRECTED] = "ecc_volatile_uncorrected",
    [ECC_AGGREGATE_CORRECTED] = "ecc_aggregate_corrected",
    [ECC_AGGREGATE_UNCORRECTED] = "ecc_aggregate_uncorrected",
    [REMAPPED_CORRECTED] = "remapped_corrected",
    [REMAPPED_UNCORRECTED] = "remapped_uncorrected",
    [REMAPPED_PENDING] = "remapped_pending",
    [REMAPPED_FAILED] = "remapped_failed",
    [RETIRED_SINGLE_BIT] = "retired_single_bit",
    [RETIRED_DOUBLE_BIT] = "retired_double_bit",
    [RETIRED_PENDING] = "retired_pending",
    [RECOVERY_ACTION] = "recovery_action",
    [FABRIC_STATE] = "fabric_state",
    [FABRIC_STATUS] = "fabric_status",
    [COMPUTE_MODE] = "compute_mode",
    [PERSISTENCE_MODE] = "persistence_mode",
    [COMPUTE_MAJOR] = "compute_major",
    [COMPUTE_MINOR] = "compute_minor",
    [EVENT_TYPES] = "event_types",
    [MIG_MODE] = "mig_mode",
    [MIG_MAX] = "mig_max",
    [GPU_INSTANCE] = "gpu_instance",
    [COMPUTE_INSTANCE] = "compute_instance",
    [GPU_SLICES] = "gpu_slices",
    [COMPUTE_SLICES] = "compute_slices",
    [MULTIPROCESSORS] = "multiprocessors",
    [GPM] = "gpm",
    [GRAPHICS_UTIL] = "graphics_util",
    [SM_UTIL] = "sm_util",
    [SM_OCCUPANCY] = "sm_occupancy",
    [TENSOR_UTIL] = "tensor_util",
    [DRAM_UTIL] = "dram_util",
};

static const char *const LIST_NAMES[] = {
    [COMPUTE] = "compute", [MPS] = "mps", [GRAPHICS] = "graphics"};

static const char TOO_LONG[] = "a word is too long";
static const char TOO_MANY[] = "too many lines of this kind";
static const char MISSING[] = "a word is missing";
static const char NO_NUMBER[] = "not a number";
static const char NO_DEVICE[] = "no such device";

static bool copy(char *to, size_t size, const char *from)
{
    int length = snprintf(to, size, "%s", from);
    return length >= 0 && (size_t)length < size;
}

/* The next word; `*rest` then stands after it. */
static char *next_word(char **rest)
{
    return strtok_r(NULL, " \t", rest);
}

/* What is left of the line, without the blanks around it. */
static char *rest_of_line(char **rest)
{
    char *text = *rest ? *rest : "";
    while (isblank((unsigned char)*text))
        text++;
    for (size_t end = strlen(text); end > 0 && isspace((unsigned char)text[end - 1]); end--)
        text[end - 1] = '\0';
    return text;
}

static bool read_number(const char *word, double *number)
{
    char *end;
    if (!word || !*word)
        return false;
    *number = strtod(word, &end);
    return *end == '\0';
}

static Complaint read_version(char *to, char **rest)
{
    return copy(to, VERSION_SIZE, rest_of_line(rest)) ? NULL : TOO_LONG;
}

static unsigned int lowest_free_slot(const State *state, const char *parent)
{
    for (unsigned int slot = 0;; slot++) {
        bool taken = false;
        for (int i = 0; i < state->device_count && !taken; i++) {
            const Device *device = &state->devices[i];
            taken = !device->gone && device->slot == slot && strcmp(device->parent, parent) == 0;
        }
        if (!taken)
            return slot;
    }
}

/* A GPU (`parent` is NULL) or an instance: new, or back after it was gone, with no figures. */
static Complaint read_device(State *state, const char *uuid, const char *parent)
{
    if (!uuid)
        return MISSING;
    Device *device = find_any(state, uuid);
    if (!device) {
        if (state->device_count == MAX_DEVICES)
            return TOO_MANY;
        device = &state->devices[state->device_count++];
    }
    memset(device, 0, sizeof *device);
    device->gone = true; /* takes no slot until it has one */
    if (parent)
        device->slot = lowest_free_slot(state, parent);
    device->gone = false;
    bool fits = copy(device->uuid, UUID_SIZE, uuid) &&
                copy(device->parent, UUID_SIZE, parent ? parent : "");
    return fits ? NULL : TOO_LONG;
}

static Complaint read_instance(State *state, char **rest)
{
    const char *uuid = next_word(rest), *parent = next_word(rest);
    if (!parent)
        return MISSING;
    if (!find_device(state, parent))
        return "no such GPU";
    return read_device(state, uuid, parent);
}

static Complaint read_gone(State *state, char **rest)
{
    const char *uuid = next_word(rest);
    Device *device = uuid ? find_any(state, uuid) : NULL;
    if (!device)
        return NO_DEVICE;
    device->gone = true;
    return NULL;
}

static Complaint read_figure(Device *device, const char *name, const char *word)
{
    for (int i = 0; i < FIGURES; i++) {
        if (strcmp(FIGURE_NAMES[i], name) != 0)
            continue;
        device->known[i] = strcmp(word, "N/A") != 0;
        if (device->known[i] && !read_number(word, &device->figure[i]))
            return NO_NUMBER;
        return NULL;
    }
    return "no such figure";
}

static Complaint read_set(State *state, char **rest)
{
    const char *uuid = next_word(rest), *name = next_word(rest);
    if (!name)
        return MISSING;
    Device *device = find_any(state, uuid);
    if (!device)
        return NO_DEVICE;
    const char *value = rest_of_line(rest);
    if (strcmp(name, "name") == 0)
        return copy(device->name, NAME_SIZE, value) ? NULL : TOO_LONG;
    if (strcmp(name, "profile") == 0)
        return copy(device->profile, NAME_SIZE, value) ? NULL : TOO_LONG;
    if (strcmp(name, "pci") == 0)
        return copy(device->bus_id, BUS_ID_SIZE, value) ? NULL : TOO_LONG;
    return read_figure(device, name, value);
}

/* The process with this device, pid and list: its earlier line, or a new one. */
static Process *process_for(State *state, const Process *wanted)
{
    for (int i = 0; i < state->process_count; i++) {
        Process *known = &state->processes[i];
        if (known->pid == wanted->pid && known->list == wanted->list &&
            strcmp(known->uuid, wanted->uuid) == 0)
            return known;
    }
    return state->process_count == MAX_PROCESSES ? NULL : &state->processes[state->process_count++];
}

static Complaint read_process(State *state, char **rest)
{
    const char *uuid = next_word(rest), *pid = next_word(rest), *mib = next_word(rest);
    Process process = {.list = COMPUTE, .mib = -1};
    double number;
    if (!mib)
        return MISSING;
    if (!copy(process.uuid, UUID_SIZE, uuid))
        return TOO_LONG;
    if (!read_number(pid, &number))
        return NO_NUMBER;
    process.pid = (unsigned int)number;
    if (strcmp(mib, "N/A") != 0 && !read_number(mib, &process.mib))
        return NO_NUMBER;
    for (const char *word = next_word(rest); word; word = next_word(rest)) {
        if (strcmp(word, "foreign") == 0)
            process.foreign = true;
        else if (strcmp(word, LIST_NAMES[MPS]) == 0)
            process.list = MPS;
        else if (strcmp(word, LIST_NAMES[GRAPHICS]) == 0)
            process.list = GRAPHICS;
        else if (strcmp(word, LIST_NAMES[COMPUTE]) != 0)
            return "no such list of processes";
    }
    Process *place = process_for(state, &process);
    if (!place)
        return TOO_MANY;
    *place = process;
    return NULL;
}

static Complaint read_exit(State *state, char **rest)
{
    const char *uuid = next_word(rest), *pid = next_word(rest);
    double number;
    if (!pid)
        return MISSING;
    if (!read_number(pid, &number))
        return NO_NUMBER;
    int kept = 0;
    for (int i = 0; i < state->process_count; i++) {
        const Process *process = &state->processes[i];
        if (process->pid != (unsigned int)number || strcmp(process->uuid, uuid) != 0)
            state->processes[kept++] = *process;
    }
    state->process_count = kept;
    return NULL;
}

static Complaint read_limit(State *state, char **rest)
{
    Limit limit = {.soft = 0};
    const char *uuid = next_word(rest), *soft = next_word(rest), *hard = next_word(rest);
    if (!hard)
        return MISSING;
    if (!read_number(soft, &limit.soft) || !read_number(hard, &limit.hard))
        return NO_NUMBER;
    if (!copy(limit.uuid, UUID_SIZE, uuid) || !copy(limit.group, PATH_SIZE, rest_of_line(rest)))
        return TOO_LONG;
    int place = 0;
    while (place < state->limit_count && (strcmp(state->limits[place].uuid, limit.uuid) != 0 ||
                                          strcmp(state->limits[place].group, limit.group) != 0))
        place++;
    if (place == MAX_LIMITS)
        return TOO_MANY;
    state->limits[place] = limit;
    state->limit_count += place == state->limit_count;
    return NULL;
}

static Complaint add_event(State *state, const char *uuid, const char *type, const char *data)
{
    double type_number, data_number;
    if (!uuid || !type || !data)
        return MISSING;
    if (!read_number(type, &type_number) || !read_number(data, &data_number))
        return NO_NUMBER;
    if (state->event_count == MAX_EVENTS)
        return TOO_MANY;
    Event *event = &state->events[state->event_count++];
    event->type = (unsigned long long)type_number;
    event->data = (unsigned long long)data_number;
    return copy(event->uuid, UUID_SIZE, uuid) ? NULL : TOO_LONG;
}

static Complaint read_trouble(State *state, TroubleKind kind, char **rest)
{
    const char *function = next_word(rest), *value = next_word(rest), *uuid = next_word(rest);
    if (!value)
        return MISSING;
    if (state->trouble_count == MAX_TROUBLES)
        return TOO_MANY;
    Trouble *trouble = &state->troubles[state->trouble_count++];
    trouble->kind = kind;
    if (!read_number(value, &trouble->value))
        return NO_NUMBER;
    bool fits = copy(trouble->function, FUNCTION_SIZE, function) &&
                copy(trouble->uuid, UUID_SIZE, uuid ? uuid : "");
    return fits ? NULL : TOO_LONG;
}

Complaint read_line(State *state, char *line)
{
    char *rest;
    const char *kind = strtok_r(line, " \t", &rest);
    if (!kind || kind[0] == '#')
        return NULL;
    if (strcmp(kind, "set") == 0)
        return read_set(state, &rest);
    if (strcmp(kind, "process") == 0)
        return read_process(state, &rest);
    if (strcmp(kind, "exit") == 0)
        return read_exit(state, &rest);
    if (strcmp(kind, "limit") == 0)
        return read_limit(state, &rest);
    if (strcmp(kind, "gpu") == 0)
        return read_device(state, next_word(&rest), NULL);
    if (strcmp(kind, "mig") == 0)
        return read_instance(state, &rest);
    if (strcmp(kind, "gone") == 0)
        return read_gone(state, &rest);
    if (strcmp(kind, "fail") == 0)
        return read_trouble(state, FAIL, &rest);
    if (strcmp(kind, "delay") == 0)
        return read_trouble(state, DELAY, &rest);
    if (strcmp(kind, "hang") == 0)
        return read_trouble(state, HANG, &rest);
    if (strcmp(kind, "driver") == 0)
        return read_version(state->driver_version, &rest);
    if (strcmp(kind, "nvml") == 0)
        return read_version(state->nvml_version, &rest);
    if (strcmp(kind, "cuda") == 0) {
        double number;
        if (!read_number(next_word(&rest), &number))
            return NO_NUMBER;
        state->cuda_version = (int)number;
        return NULL;
    }
    const char *uuid = next_word(&rest);
    if (strcmp(kind, "xid") == 0)
        return add_event(state, uuid, "8", next_word(&rest));
    if (strcmp(kind, "event") == 0) {
        const char *type = next_word(&rest);
        return add_event(state, uuid, type, next_word(&rest));
    }
    return "no such kind of line";
}
