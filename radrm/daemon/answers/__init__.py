"""What users may ask of the daemon: *questions*, which change nothing, and *commands*.

The files, in the order in which they may import one another:
    selection        which jobs a command is about
    status           the questions about many jobs, in pages
    energy           what jobs used of the energy
    device_commands  the commands about devices and MPS
    past             what has been: sums over past jobs, and their list (a folder)
    limits           the limits of a user, and what counts for them
    reservations     who has reserved GPUs, and the commands that reserve and cancel
    questions        all questions
    followers        which jobs can never start once others are cancelled, or run again with others
    each_job         a command, carried out job by job
    saving           the commands that ask running jobs to save, or to move
    resizing         the command that gives running jobs another size
    edit             the command that changes what jobs ask for
    reload           the command that starts the daemon anew with its configuration
    commands         the other commands about jobs; all commands
    requests         who answers which request
"""
