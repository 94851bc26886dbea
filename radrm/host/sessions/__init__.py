"""`radrm run`: a job that is tied to the terminal of its user.

Theory of operation. The user's `radrm run` listens on a socket in a folder that only the user can
enter. The job's command is `inside`, which connects back, starts the user's command, and ends it
when the connection ends. The kernel tells both sides who the other one is, so no secret is needed:
whoever may enter the folder and has the user's id may do everything to the job anyway. The daemon
sees an ordinary job with limits, a place in the queue and an exit code; it carries no byte of the
session, and a session survives its restart. With a terminal (`--pty`), `inside` makes one for the
command and passes bytes on; otherwise the command writes to the job's logs, and reads a pipe, which
gets the standard input of `radrm run`.

The files, in the order in which they may import one another:
    frames  what the terminal sends to the job
    inside  the job's end; a program
"""
