"""The batch step of a Slurm job, which waits for the daemon of its node and runs the job.

The files, in the order in which they may import one another:
    attempt   run one attempt as the child of the step; signals; is Slurm's controller silent
    returning  ask Slurm again while its controller is away; give a job back to Slurm
    envelope  the job of a step: from the Slurm job and its script to an envelope
    main      from the first question to the job's end

Each job's start imports these files, so the first question to the daemon comes before the rest of
them is imported.
"""
