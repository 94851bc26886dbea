"""From envelopes in the spool to jobs with ids and estimates.

The files, in the order in which they may import one another:
    envelopes   an envelope read anew: its job file, and whose it is
    estimation  what a job will need, as the daemon comes to know it
    batch       from what lies in the spool to jobs
    scan        one look into the spool
"""
