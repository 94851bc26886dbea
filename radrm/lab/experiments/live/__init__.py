"""Play a trace through a daemon, for `radrm trace run`.

The files, in the order in which they may import one another:
    submissions  what is submitted for each job: its command and its declared needs
    record       readings and attempts as the record of a run
    play         the daemon; submit the jobs at their times, and wait for their ends
    trace        the whole: play, and simulate the same beside
"""
