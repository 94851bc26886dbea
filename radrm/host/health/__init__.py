"""The checks of `radrm doctor`: whether radrm can work on this machine.

Each check is a function that examines one thing and returns one `Finding`. It gets that thing as a
parameter (a folder such as /proc, a function), so tests can give it any machine. A check changes
nothing, except for a control group that it makes and removes.

The files, in the order in which they may import one another:
    finding      the result of a check; runs checks that may fail or hang
    kernel       control groups, open files
    places       the folders of a daemon, their disk, the store
    gpus         the driver, its GPUs, MPS, SM activity
    services     systemd, DCGM, Docker, the tracer's limits
    served       the running daemon's reports about its GPUs
    daemon       whether a daemon answers, and which one
    checks       all checks in their order
    slurm        what `radrm doctor --slurm` checks
"""
