"""`radrm pilot`: a daemon of one user, on the GPUs of one ordinary Slurm job ([cluster.md]).

The files, in the order in which they may import one another:
    shared    the folder that all pilots of a user share: what waits, and what each has claimed
    remains   what goes back to that folder
    gpus      which GPUs Slurm has given
    server    the daemon of a pilot
    starting  the Slurm job of a pilot
    running   the pilot: claims jobs, watches them, gives back what has not started
    main      the batch process of a pilot
"""
