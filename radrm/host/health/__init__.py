"""The checks of `radrm doctor`: what an administrator can correct on this machine.

Each check is a function that examines one thing and returns one `Finding`. It gets that thing as a
parameter (a folder such as /proc, a function), so tests can give it any machine. A check changes
nothing. What stops a daemon's start is an error of that start, and no check here.

The files, in the order in which they may import one another:
    finding      the result of a check; runs checks that may fail or hang
    disk         the disk of a daemon's state
    gpus         the driver and its GPUs
    services     systemd, logind, the tracer's limits; who can change the service's code
    served       the running daemon's reports about its GPUs and its jobs
    checks       all checks in their order
"""
