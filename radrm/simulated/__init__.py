"""Layer 1: the models of simulated GPUs and of training, for `host.simulated` and the simulator.

Pure: callers pass the time in; nothing here uses a socket, a process or a file.

The files, in the order in which they may import one another:
    spec      parses `--gpus sim:...`; the power that a GPU draws
    integral  the one integrator: what grows at a rate
    model     the simulated driver's state: contexts, memory, work, activity, energy
    training  the speed and the use of a distributed training's tasks; DLRover's model of a step
"""
