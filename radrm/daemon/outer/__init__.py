"""Jobs that run inside jobs of Slurm: what the daemon believes of them, and when they end.

The files, in the order in which they may import one another:
    steps    the processes that wait for their jobs: are they alive, and who are they
    answers  the request of a step
"""
