"""A run on many equal servers: who deals the jobs to them.

The files, in the order in which they may import one another:
    joined  the runs of several servers as one
    hashed  a hash sends each job to a server, for ever
    gpumem  a queue above the servers counts their GPU memory, as Slurm does
    dealing chooses between them
"""
