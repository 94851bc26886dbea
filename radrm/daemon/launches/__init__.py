"""Parts of the plan of a launch.

The files, in the order in which they may import one another:
    amounts  CPUs and host memory of all its tasks
    logs     the paths of its logs
"""
