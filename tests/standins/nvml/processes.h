/* Which processes hold memory on a device, and how much that is together. */
#ifndef STAND_IN_PROCESSES_H
#define STAND_IN_PROCESSES_H

#include "state.h"

/* MiB that a device's processes hold; the instances' processes count on their GPU too. A
 * process that stands in two lists counts once. */
double held_mib(const State *state, const Device *device);

#endif
