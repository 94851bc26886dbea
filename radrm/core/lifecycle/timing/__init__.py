"""Times that a job's user has set.

The files, in the order in which they may import one another:
    limits    time limits, and the signal before them
    warnings  what the user of a running job is warned of
    silence   a job whose log and progress stand still
    begin     a job that does not start before a moment
"""
