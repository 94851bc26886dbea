"""Simulated GPUs: the real daemon and real job processes on simulated devices.

The simulated driver is a process of its own and outlives the daemon, as a real driver does.
Jobs ask it for memory and work, and slow one another down. The daemon reads it as it would read
NVML. Only the GPUs are simulated; a job that uses a real GPU finds none here. The model itself
is `radrm.simulated`, which the simulator shares.

The files, in the order in which they may import one another:
    client          a job's connection to the driver
    requests        the requests to the driver, and who may make them
    driver          the driver process: lock, loop, end
    simulated_gpus  the source of readings that asks the driver
    start_driver    starts the driver, or finds the one that runs
    simjob          `radrm-simjob`, a stand-in for a training job
"""
