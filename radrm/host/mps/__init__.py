"""CUDA's Multi-Process Service: its control daemons, kept alive, and the jobs that are clients.

One control daemon serves one GPU (`mps.scope = "gpu"`), so that a fault there ends nobody on
another GPU, or one serves all (`"server"`), so that jobs on several GPUs can be clients too.
Control daemons and their servers outlive radrm's own daemon, as jobs do; the next one takes
them over. Each has a keeper, in a thread of its own: what hangs there delays nobody.

The files, in the order in which they may import one another:
    control       one control daemon: start it, ask it, end it
    users         may clients of several users be on one server?
    keeper        keeps one control daemon alive and sound
    clients       ends clients the way CUDA wants it
    driver        what is asked of the driver
    compute_mode  one MPS server per GPU and nothing beside it; given back
    service       all control daemons of this server, and which device is whose
    modelled      MPS of software GPUs, which needs no control daemon
    source        a GPU source whose devices say whether MPS serves them
"""
