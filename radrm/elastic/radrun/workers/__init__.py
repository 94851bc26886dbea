"""The processes of workers.

The files, in the order in which they may import one another:
    proc         whose processes are which
    environment  the variables of a worker
    standby      runs in the user's Python: stands by, then runs the program
    process      one worker's process
    members      a generation of workers: who has ended, what is left
    launching    how the workers of a generation are started
    cpus         which CPUs each worker gets
"""
