"""Attempts whose runner waits for them: the batch step of a Slurm job, a process of the job's user.

Theory of operation. Such an attempt has a second folder inside the daemon's, `step`, which belongs
to the job's user. The launch record in the daemon's folder stays the truth for the daemon. The
step gets a copy, and writes lock, claim, start and end as every runner does, and at last `over`:

    over.json   the step's: nothing follows from this attempt any more; and why its Slurm job ends,
                and since when, if it does

So the daemon does not look at an end before the step has said whether Slurm caused it. A user can
write anything there. So the daemon follows no link, reads little, waits for nothing, and believes
that a process is the runner only if it is the step's child and the job's user's.

The files, in the order in which they may import one another:
    handover  makes the folder, and wakes the step
    records   what the step's records prove
    run       where the process of a step's runner begins
"""
