"""Jobs with parameter servers: what `dlrover` and `nearchus` have in common.

The files, in the order in which they may import one another:
    layout    the tasks of such a job and their CPUs, and what it may have
"""
