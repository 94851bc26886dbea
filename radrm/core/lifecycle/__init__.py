"""How jobs and attempts start, change and end.

Every function changes records through the state, and adds actions for the host. Whether a job
*should* start or stop is decided elsewhere.

The files, in the order in which they may import one another:
    occupancy     reserves and releases the devices of an attempt
    migration     the devices where a migrating job is to continue
    final         ends a job
    returning     returns a job to its queue, with a pause
    outcomes      how an attempt ended, and why
    pending       actions without an answer, and their deadlines
    memory        memory of jobs that may grow (a folder)
    stops         TERM, then KILL
    timing        times that users set (a folder)
    launching     starts an attempt
    outer         jobs that run inside a job of Slurm
    resizing      gives a running attempt other devices
    recovery      what follows a GPU out-of-memory
    ending        what follows the end of an attempt
    usage         the use of devices by attempts, from readings
    others        what an end means for other jobs (a folder)
    edits         commands of users: submit, hold, cancel, requeue, edit
"""
