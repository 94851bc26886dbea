"""The live view to work in: `radrm top`. It needs the extra `top` (textual).

It asks the daemon at most once a second, for what fits the screen, through the client library.

The files, in the order in which they may import one another:
    history  the recent readings of each GPU, and lines of bars of them
    source   what is asked of the daemon, and the commands that are given
    picture  the parts of the screen as text
    dialogs  the question before a command, and the keys
    app      the application: keys, cursor, the time between two questions
"""
