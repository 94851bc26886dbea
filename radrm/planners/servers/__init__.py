"""Jobs with parameter servers: what `dlrover` and `nearchus` have in common.

The files, in the order in which they may import one another:
    layout    the tasks of such a job and their CPUs, and what it may have
    metering  from sums of CPU time and steps to rates
    placing   from a layout to a placement, within what is free
    settings  the ranges of settings
    notes     what is kept of each job
    steering  start such jobs, follow them, and carry out their changes
"""
