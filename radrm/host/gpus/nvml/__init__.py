"""Real GPUs, read through NVML.

`find` imports `pynvml` (package nvidia-ml-py), so these modules can be imported without the
package and without a driver.

Three kinds of errors are kept separate:
    a quantity that a device does not offer    None for that quantity
    a device that cannot be read               a `Reading` with `error`
    a driver that does not answer at all       `DeviceError`

SM activity by hardware counters is in `gpm`. NVML's utilization is the share of time in which
any kernel runs, so it is marked as coarse.

The files, in the order in which they may import one another:
    words      NVML's error numbers and their messages
    loading    which library `pynvml` loads
    library    the connection to the driver; calls and their errors
    figures    checks that bytes and numbers are possible
    lists      the driver's lists of processes
    reserve    the driver's own memory, which old drivers count as used
    topology   which GPUs are near each other, and which CPUs are near a GPU
    listing    GPUs and MIG instances as devices, and their handles
    processes  the memory of each process on a device
    power      power, from the energy counter if there is one
    activity   the SM activity of each process
    xids       faults that the driver reports as Xids
    condition  memory errors, heat, pending resets
    gpus       the GPU source
"""

from radrm.host.gpus.nvml.gpus import SMACT_SOURCE, Found, NvmlGpus, find

__all__ = ["SMACT_SOURCE", "Found", "NvmlGpus", "find"]
