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
    library    the connection to the driver: loading, calls, errors, numbers, lists of processes
    topology   which GPUs are near each other, and which CPUs are near a GPU
    listing    GPUs and MIG instances as devices, and their handles
    xids       faults that the driver reports as Xids
    condition  memory errors, heat, pending resets
    gpus       the GPU source
"""

from radrm.host.gpus.nvml.gpus import SMACT_SOURCE, Found, NvmlGpus, find

__all__ = ["SMACT_SOURCE", "Found", "NvmlGpus", "find"]
