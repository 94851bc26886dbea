"""Reading GPUs: NVML, nvidia-smi, DCGM, and the processes on them.

The files, in the order in which they may import one another:
    source           what any source of GPU readings must offer
    unmanaged        processes on a device that radrm did not start
    unmanaged_rules  what is due to them, and when
    unmanaged_watch  telling of them and signalling them
    nvml             real GPUs, read through NVML (a folder)
    gpm              SM activity of Hopper and newer GPUs, through NVML too
    stream           a program that prints lines for as long as it lives, kept alive
    dcgm             SM activity from DCGM, by `dcgmi dmon`
    exporter         SM activity from dcgm-exporter's page of metrics
    nvidia_smi       real GPUs, read through `nvidia-smi` (a folder)
    readings         several sources as one: who lists, who tells SM activity
"""
