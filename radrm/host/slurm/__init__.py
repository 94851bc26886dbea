"""Slurm as radrm meets it: its own commands, run and read.

The files, in the order in which they may import one another:
    job_submit  the rules of radrm in a job_submit.lua
    programs    find and run Slurm's own commands
    membership  whether a process is in a job of Slurm
"""
