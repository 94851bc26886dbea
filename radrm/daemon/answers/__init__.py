"""What users may ask of the daemon: *questions*, which change nothing, and *commands*.

The files, in the order in which they may import one another:
    selection        which jobs a command is about
    status           the questions about many jobs, in pages
    device_commands  the commands about devices and MPS
    past             what has been: sums over past jobs, and their list (a folder)
    reservations     who has reserved GPUs, and the commands that reserve and cancel
    questions        all questions
    each_job         a command, carried out job by job
    running          the commands that ask running jobs to save, to move, to have another size
    edit             the command that changes what jobs ask for
    commands         the other commands about jobs; all commands
    requests         who answers which request
"""
