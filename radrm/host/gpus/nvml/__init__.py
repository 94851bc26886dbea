"""Real GPUs, read through NVML. With `gpm`, all of the daemon that knows `pynvml`.

`pynvml` (package nvidia-ml-py) is imported when `find` is called, so that these
modules can be imported where the package or the driver is missing.

Three kinds of trouble, kept apart:
    a quantity that a device does not offer    None for that quantity
    a device that cannot be read               a `Reading` with `error`
    a driver that does not answer at all       `DeviceError`

Not here: SM activity by hardware counters. What NVML calls utilization is the share of
time with any kernel running, and is marked as coarse.

The files, in the order in which they may import one another:
    words      NVML's error numbers, and what people are told
    library    the connection to the driver; calls and their errors
    figures    bytes and numbers that can be believed
    lists      the driver's lists of processes
    reserve    the driver's own memory, where an old one counts it as used
    listing    GPUs and MIG instances as devices, and their handles
    processes  who holds how much on a device
    power      watts, from the energy counter where there is one
    xids       what the driver reports of broken GPUs
    condition  memory errors, heat, a reset that is wanted
    gpus       the source of readings made of all these
"""

from radrm.host.gpus.nvml.gpus import SMACT_SOURCE, Found, NvmlGpus, find

__all__ = ["SMACT_SOURCE", "Found", "NvmlGpus", "find"]
