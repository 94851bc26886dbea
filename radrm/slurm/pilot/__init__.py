"""`radrm pilot`: a daemon of one user, on the GPUs of one ordinary Slurm job ([cluster.md]).

The files, in the order in which they may import one another:
    shared    the folder that all pilots of a user share: what waits, and what each has claimed
    server    the daemon of a pilot
    running   the pilot: claims jobs, watches them, gives back what has not started
    main      the Slurm job and the batch process of a pilot
"""
