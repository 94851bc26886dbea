"""The batch step of a Slurm job, which waits for the daemon of its node and runs the job.

The files, in the order in which they may import one another:
    signals   what has been sent to the step
    patience  ask Slurm again while its controller is away
    attempt   run one attempt as the child of the step
    envelope  from the Slurm job and its script to an envelope
    fence     is Slurm's controller silent
    returning  give a job back to Slurm that has waited too long
    main      from the first question to the job's end
"""
