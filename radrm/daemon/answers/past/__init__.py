"""What has been: sums over past jobs, and the list of them.

The files, in the order in which they may import one another:
    held           who held which GPU for how long
    figures        the figures of one row of a report
    gather         the jobs and attempts of a time, in small pieces
    quantiles      quantiles of many amounts, in a small space
    bins           a time in parts
    overview_sums  the sums of an overview
    report         sums by user, group, job, GPU or day
    overview       how the server did
    history        the list of past jobs, with their sums
"""
