"""What `radrm doctor` looks at: this machine, as radrm will find it.

Each check is a function that looks at one thing and returns one `Finding`. What it looks
at is a parameter (a folder like /proc, a function), so that tests can show it any machine.
Nothing here changes anything, but for a control group and a notifier that are made and
removed again.

The files, in the order in which they may import one another:
    finding      what a check comes back with; running checks that may break or hang
    software     Python, packages, SQLite, the clock, the rights of this process
    kernel       what the kernel must offer: control groups, pidfds, inotify, open files
    places       the folders of a daemon, their disk, the store
    job_files    the folder whose `.rad` files become jobs
    gpus         the driver, its GPUs, MPS, SM activity
    services     systemd, DCGM, Docker, whoever keeps the time
    served       what the daemon that runs tells of its GPUs
"""
