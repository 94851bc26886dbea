"""Reading GPUs: NVML, nvidia-smi, DCGM, and the processes on them.

The files, in the order in which they may import one another:
    source           the interfaces of a source, of a stage that readings pass, and of a feed
    processes        descriptions of the processes on GPUs
    unmanaged        when those that radrm did not start are logged and signalled
    unified          the memory of GPUs that use the server's
    nvml             real GPUs, read through NVML (a folder)
    memory_caps      memory caps that the driver enforces
    gpm              SM activity of Hopper and newer GPUs, also through NVML
    stream           runs a program that prints lines, and restarts it
    dcgm             SM activity from DCGM, by `dcgmi dmon`
    exporter         SM activity from dcgm-exporter's page of metrics
    nvidia_smi       real GPUs, read through `nvidia-smi`
    readings         a source and the stages: SM activity, compute instances, the GPUs in use
"""
