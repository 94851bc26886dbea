"""How jobs and attempts start, change and end.

Every function changes records through the state, and adds actions for the host. Whether a job
*should* start or stop is decided elsewhere.

The files, in the order in which they may import one another:
    occupancy     the devices of an attempt: taken, given back, and a migration's target
    leaving       ends a job, or returns it to its queue with a pause
    outcomes      how an attempt ended, and why
    asking        asks the host for an action about a live attempt; TERM, then KILL
    memory        memory of jobs that may grow
    timing        times that users set
    misplaced     jobs that use GPUs which they were not given
    launching     starts an attempt
    outer_job     jobs that run inside a job of Slurm
    recovery      what follows a GPU out-of-memory
    ending        what follows the end of an attempt
    usage         the use of devices by attempts, from readings
    pending       what follows an action: its answer, failure, deadline, a restart; resizes
    followers     what an end means for other jobs: arrays, dependencies
    edits         commands of users: submit, hold, cancel, requeue, edit
"""
