"""Software GPUs: the real daemon and real job processes on modelled devices.

A modelled driver, a process of its own, outlives the daemon as a driver does. Jobs ask it
for memory and work; their neighbours slow them down; the daemon reads it as it would read
NVML. Everything is modelled but the scheduling: a job that uses a real GPU sees none here.
What is modelled stands in `radrm.modelled`, which the simulator shares.

The files, in the order in which they may import one another:
    requests  what may be asked of the driver, and by whom
    driver    the driver process: lock, loop, end
    client    a job's connection to the driver
    source    the daemon's connection: readings, and starting the driver
    simjob    `radrm-simjob`, a training job's stand-in
"""
