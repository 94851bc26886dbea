"""How jobs and attempts start, change and end.

Every function changes records through the state, and adds actions for the host. Whether a job
*should* start or stop is decided elsewhere.

The files, in the order in which they may import one another:
    occupancy     the devices of an attempt: taken, given back, and a migration's target
    leaving       ends a job, or returns it to its queue with a pause
    outcomes      how an attempt ended, and why
    pending       actions without an answer, and their deadlines
    memory        memory of jobs that may grow
    stops         TERM, then KILL
    timing        times that users set
    misplaced     jobs that use GPUs which they were not given
    launching     starts an attempt
    outer         jobs that run inside a job of Slurm
    resizing      gives a running attempt other devices
    recovery      what follows a GPU out-of-memory
    ending        what follows the end of an attempt
    usage         the use of devices by attempts, from readings
    others        what an end means for other jobs
    edits         commands of users: submit, hold, cancel, requeue, edit
"""
