"""What Slurm's words mean inside a job of radrm.

The files, in the order in which they may import one another:
    options    the options of srun
    request    from a command line of srun to what the step is
    shares     which GPUs and CPUs of the job its steps have
    step       run the tasks of a step
    run        `srun` inside a job
"""
