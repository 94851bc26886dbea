"""Layer 1: modelled GPUs, for the software GPUs (`host.simulated`) and for the simulator.

Pure: time is passed in; no socket, process or file is known here.

The files, in the order in which they may import one another:
    spec    what `--gpus sim:...` may say
    model   the modelled driver's state: contexts, memory, work, activity, energy
"""
