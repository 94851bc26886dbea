"""What jobs are and why, in words: for the command, the page and programs alike.

Names and reasons in them are as users gave them: who shows the words makes them printable.

The files, in the order in which they may import one another:
    jobs     the words of one job: why it waits, where it runs, how far it is
    facts    all facts of a job, as its card shows them
    reasons  why a job waits, and what is expected of it
"""
