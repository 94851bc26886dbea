"""What every placement and every proposal must satisfy.

A rule (policy, planner) may refuse more than these constraints do, but never allow more. The
same functions decide and explain, so `radrm explain` shows the actual reason.

The files, in the order in which they may import one another:
    kinds        the kinds of device that a task can run on
    matching     whether all roles together can have devices
    need         how much memory a job needs on each of its GPUs
    expected     when the memory of a device is expected to be free
    overlap      why a job would need what is reserved for others before its time limit
    fit          why a device cannot take a job, no matter which jobs are on it
    modes        how a job would share a device
    nodes        why a job cannot have its CPUs and its host memory
    turns        whose turn it is on an MPS server
    sharing      why a job cannot join the jobs on a device, and its part of the SMs there
    placement    all shares of a placement together
    reserve      a planner's reservation for a waiting job
    feasibility  why a job can never run on these devices
    proposal     the proposals that a job in its present state allows
    offers       one device as one job would find it, kept while nothing there changes
"""
