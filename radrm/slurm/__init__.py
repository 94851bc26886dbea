"""Layer 7: radrm under Slurm ([cluster.md]). All of it runs as a user, and asks by `client/`.

The files, in the order in which they may import one another:
    settings  which configuration holds for commands of a cluster
    comment   what the step writes into the comment of its Slurm job, and reads there
    wrapped   batch scripts that run through the step
    outer     the Slurm job in which this process runs
    jobs      what Slurm says of the jobs of the partition
    accounts  what the ended jobs of the partition have used
    setup     lines for Slurm's own configuration
    submitting  from a job file to the words of sbatch
    signals   what has been sent to the step
    patience  ask Slurm again while its controller is away
    attempt   run one attempt as the child of the step
    envelope  from the Slurm job and its script to an envelope
    fence     is Slurm's controller silent
    returning  give a job back to Slurm that has waited too long
    step      the batch step of a job: submits it, waits, runs its attempts
    pilot     a daemon of one user in an ordinary Slurm job (a folder)
"""
