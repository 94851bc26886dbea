"""The folder in which the daemon and `radrun` speak about the tasks of one attempt.

The files, in the order in which they may import one another:
    names    the files there, their limits, and their encoding
    exits    what `radrun` says about the tasks that have ended
    answers  what `radrun` answers to a new placement
    acting   the small program that reads and writes there as the job's user
    folders  make the folders, act in them, remove them
"""
