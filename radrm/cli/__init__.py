"""Floor 5: the commands people type. One command per file; rendering apart.

The files, in the order in which they may import one another:
    client       the connection to a daemon
    exits        exit codes of commands that wait for jobs
    submit       `radrm submit`, on a path that imports little
    render       tables and lines for people
    options      what several commands take alike
    status       `radrm status`
    logs         `radrm logs`
    cancel       `radrm cancel`
    wait         `radrm wait`
    gpus         `radrm gpus`
    daemon       `radrm daemon`
    demo         `radrm demo`
    app          all commands but `submit`, by typer
    main         the entry points
"""
