"""Layer 3: the real world. Clocks, processes, files, sockets and GPUs.

The files, in the order in which they may import one another:
    clock       both clocks, scaled for software GPUs
    trouble     which failures lie with the server and may pass
    sockets     AF_UNIX sockets of any path depth; who is at the other end
    storage     what lies on disk (a folder)
    attempts    one launch of a job (a folder)
    watched     folders whose `.rad` files become jobs (a folder)
    home        which folders are radrm's own, and which numbers were given
    estimation  how estimators are asked, so that none delays anybody (a folder)
    gpus        reading GPUs (a folder)
    mps         CUDA's MPS: control daemons kept alive, jobs as their clients (a folder)
    health      what `radrm doctor` looks at (a folder)
    simulated   simulated GPUs: the driver, its clients (a folder)
"""
