"""`radrun`: runs the workers of one job, as torchrun does, and changes them while the job runs.

It runs as the job's user, in radrm's Python; the workers run in the user's Python. It works without
the daemon, too. Of the server it imports little, so it starts fast: how processes, sockets and
files are read. `generations` says how a resize goes.

The files, in the order in which they may import one another:
    placement    the tasks to run, and where each may
    folder       the files by which it and the daemon speak
    shards       which samples each worker trains on, and what a checkpoint holds of them
    hub          the socket by which the workers take data, step and save
    arguments    the command line
    workers      their processes: start, environment, what they use, what is left of them
    resizing     what the daemon asks for, and what it is answered
    generations  starts, replaces, restarts and ends generations
    reports      progress and use, as datagrams
    main         the command `radrun`
    __main__     `python -m radrm.elastic.radrun`
"""
