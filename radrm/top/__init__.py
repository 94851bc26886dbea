"""The live view to work in: `radrm top`. It needs the extra `top` (textual).

It asks the daemon at most once a second, for what fits the screen, through the client library.

The files, in the order in which they may import one another:
    source   what is asked of the daemon, and the commands that are given
    picture  the parts of the screen as text: GPUs with their recent readings, jobs
    app      the application: keys, cursor, questions, the time between two of them
    command  `radrm top`
    wing     what it adds to radrm
"""
