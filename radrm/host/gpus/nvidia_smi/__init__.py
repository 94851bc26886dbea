"""Real GPUs, read through `nvidia-smi`, for machines where Python cannot use NVML.

Theory of operation. Two long-lived children print CSV in rounds: one line per GPU, and one per
process. No child is started per sample. CSV has no memory of MIG instances; if there are any, a
third child prints a full report as XML, less often. One thread per child stores each parsed line
with its time; the reading thread uses lines that are recent enough. `nvidia-smi` does not report
who uses how much under MPS, nor the errors that the driver counted. A restart starts new
children.

`[N/A]`, `[Not Supported]`, `[Unknown Error]`, `ERR!` and the like mean unknown. nvidia-smi(1) has
the options `--query-gpu`, `--query-compute-apps`, `-lms`, `-L`, `-q -x -l`.

The files, in the order in which they may import one another:
    lines            parses the CSV of GPUs and processes
    instances        parses the list and the XML report of MIG instances
    nvidia_smi_gpus  the GPU source
"""

from radrm.host.gpus.nvidia_smi.nvidia_smi_gpus import NvidiaSmi

__all__ = ["NvidiaSmi"]
