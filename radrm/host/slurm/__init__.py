"""Slurm as radrm meets it: its own commands, run and read.

The files, in the order in which they may import one another:
    programs    find and run Slurm's own commands
    membership  whether a process is in a job of Slurm
"""
