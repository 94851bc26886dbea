"""What every placement and every proposal must satisfy.

A rule (policy, planner) may refuse more than these constraints do, but never allow more. The
same functions decide and explain, so `radrm explain` shows the actual reason.

The files, in the order in which they may import one another:
    gpu_names    whether a type of GPU, as clusters write it, means a GPU of the driver's name
    kinds        the kinds of device that tasks can run on, all roles together
    need         how much memory a job needs on each of its GPUs
    claims       who has or will have what of a device, and until when
    nodes        why a job cannot have its CPUs and its host memory
    fit          why a device cannot take a job now; turns of users on an MPS server
    placement    all shares of a placement together
    reserve      a planner's reservation for a waiting job
    feasibility  why a job can never run on these devices
    proposal     the proposals that a job in its present state allows
    offers       one device as one job would find it, kept while nothing there changes
    searches     what policies have answered, and searches that failed, kept
"""
