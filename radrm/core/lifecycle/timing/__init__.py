"""Times that a job's user has set, apart from its time limit.

The files, in the order in which they may import one another:
    warnings  what the user of a running job is warned of
    silence   a job whose log and progress stand still
    begin     a job that does not start before a moment
"""
