"""Real GPUs, read through `nvidia-smi`: for where NVML itself cannot be used from Python.

Two long-lived children print CSV, one line per GPU and one per process and round; none is
started per sample. The memory of MIG instances stands in no CSV: where there are any, a third
child prints everything there is as XML, less often. What `nvidia-smi` does not tell: who holds
what under MPS, and what the driver has counted of errors.

`[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like are what is not known.
Its options: nvidia-smi(1), `--query-gpu`, `--query-compute-apps`, `-lms`, `-L`, `-q -x -l`.

The files, in the order in which they may import one another:
    lines      the CSV of GPUs and processes
    instances  what it prints of MIG instances, as a list and as XML
    source     the source of readings made of these
"""

from radrm.host.gpus.nvidia_smi.source import NvidiaSmi

__all__ = ["NvidiaSmi"]
