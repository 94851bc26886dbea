"""Jobs with parameter servers: what `dlrover` and `nearchus` have in common.

The files, in the order in which they may import one another:
    layout    the tasks of such a job and their CPUs, what it may have, and its placement
    notes     what each job uses, and what is kept of it
    steering  start such jobs, follow them, and carry out their changes
"""
