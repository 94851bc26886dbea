"""Layer 5: talk to a daemon: requests, following, log files, exit codes. No typer, no rich.

The files, in the order in which they may import one another:
    states      which states of a job are waiting, live, final
    text        plain text and JSON, without rich
    amounts     amounts and times as people read them
    words       what jobs are and why, in words
    starting    whether a daemon starts now, and why none can be reached
    connection  the connection to a daemon
    exits       wait for jobs, and convert their ends to exit codes
    tail        read a log file as it grows
    follow      follow jobs: their states and logs
    last_state  what the store says while no daemon runs
    commands    commands about many jobs or devices
    awaiting    wait for what comes of a request: a size, saved work
    jupyter     the command of a notebook, and how to reach it
    session     the user's end of `radrm run`
    snapshots   the copies of code that jobs run in
    submitting  read, check and spool jobs, and learn their ids
    estimates   ask the estimators about a job file
    fitting     what would make a job fit on a GPU, by traces
    preview     what a submission would be
"""
