/* What every function of the interface does first and last.
 *
 * A call is noted, held up, made to hang or to fail as the state says; then it has the state
 * to itself until `end`. So a function reads:
 *
 *     const Device *device;
 *     nvmlReturn_t answer = begin_on(__func__, handle, &device);
 *     if (answer == NVML_SUCCESS)
 *         ...
 *     return end(answer);
 */
#ifndef STAND_IN_CALL_H
#define STAND_IN_CALL_H

#include "nvml.h"
#include "state.h"

/* What this call may use between `begin` and `end`. */
extern const State *the_state;

nvmlReturn_t begin(const char *function);
nvmlReturn_t begin_on(const char *function, nvmlDevice_t handle, const Device **device);
nvmlReturn_t end(nvmlReturn_t answer);

/* Let others use the state while this call waits; `the_state` is read anew. */
void pause_ms(int milliseconds);

/* Trouble of one device, for calls that find their device by other means than a handle. */
nvmlReturn_t trouble_on(const char *function, const Device *device);

/* The same handle for the same UUID as long as the process lives; NULL where there are too many. */
nvmlDevice_t handle_of(const char *uuid);

/* The device of a handle, NULL where it is gone or the handle was never given. */
const Device *device_of(nvmlDevice_t handle);

/* Counts nvmlInit and nvmlShutdown; every other call asks for one more of the first. */
void count_user(int change);
int users(void);

/* For calls that give one figure of a device: NOT_SUPPORTED where the state has none. */
nvmlReturn_t figure_of(const Device *device, Figure figure, double *value);
nvmlReturn_t give_uint(const char *function, nvmlDevice_t handle, Figure figure, unsigned int *to);
nvmlReturn_t give_ulonglong(const char *function, nvmlDevice_t handle, Figure figure,
                            unsigned long long *to);

/* For calls that fill a caller's buffer. */
nvmlReturn_t give_text(const char *text, char *to, unsigned int length);

#endif
