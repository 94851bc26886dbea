"""What has been: sums over past jobs, and the list of them.

The files, in the order in which they may import one another:
    gather         the jobs and attempts of a time in small pieces, who held which GPU, figures
    energy         what jobs used of the energy
    report         sums by user, group, job, GPU or day
    overview       how the server did
    history        the list of past jobs, with their sums
"""
