"""Layer 3: the real world. Clocks, processes, files, sockets and GPUs.

The files, in the order in which they may import one another:
    crossings   names for the moments at which a kill must be survived
    wall        the date, of whatever year
    clock       both clocks, scaled for simulated GPUs
    transient   which failures the server causes and may pass
    arenas      how many heaps the threads of the daemon have, and what is returned of them
    notify      tells systemd how the daemon is doing
    connections the connections of a server whose clients may be slow or hostile
    sockets     AF_UNIX sockets at any path depth; the process at the other end
    folders     names in a folder, and nothing that users mount over them
    storage     files of radrm on disk (a folder)
    mistakes    what a submission cannot mean, such as a program that does not exist
    processes   the identity of processes, and how to end them (a folder)
    node        the CPUs and the host memory that jobs can have
    progress    the sockets that take what jobs report
    attempts    one launch of a job (a folder)
    isolation   jobs can open no GPU that they were not given
    sessions    jobs that are tied to a terminal (a folder)
    watched     folders whose `.rad` files become jobs (a folder)
    notices     tell users of their jobs: mail, webhook, program (a folder)
    newer       refuses what a newer radrm has written
    home        which folders belong to radrm, and which numbers it has used
    workers     processes that compute for the daemon, one question at a time (a folder)
    estimation  runs estimators in processes of their own, with time limits (a folder)
    planning    runs slow planners in processes of their own (a folder)
    service     radrm as a service of systemd (a folder)
    gpus        reading GPUs (a folder)
    mps         CUDA's MPS: control daemons kept alive, jobs as their clients (a folder)
    health      what `radrm doctor` checks (a folder)
    simulated   simulated GPUs: the driver, its clients (a folder)
"""
