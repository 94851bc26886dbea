"""Layer 5: talk to a daemon: requests, following, log files, exit codes. No rich.

The files, in the order in which they may import one another:
    text        plain text and JSON, without rich
    amounts     amounts and times as people read them
    words       what jobs are and why, in words
    starting    whether a daemon starts now, and why none can be reached
    connection  the connection to a daemon
    tail        read a log file as it grows
    follow      follow jobs: their states and logs
    last_state  what the store says while no daemon runs
    awaiting    wait for what comes of a request: a size, saved work
    session     the user's end of `radrm run`
    snapshots   the copies of code that jobs run in
    submitting  read, check and spool jobs, and learn their ids
    estimates   ask the estimators about a job file
    fitting     what would make a job fit on a GPU, by traces
    preview     what a submission would be
"""
