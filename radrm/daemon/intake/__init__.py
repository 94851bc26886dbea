"""From envelopes in the spool to jobs with ids and estimates.

The files, in the order in which they may import one another:
    envelopes   the owner of a submission, and the kernel's limits for it
    admission   what the limits of its user admit
    estimation  estimate what a job needs, at once or by asking the estimators
    batch       convert an envelope to jobs
    scan        look into the spool; pauses after errors of the machine
"""
