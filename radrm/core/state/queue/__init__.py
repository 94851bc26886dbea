"""The waiting jobs in the order of service.

The files, in the order in which they may import one another:
    order       the interface of an order, which sorts the waiting jobs
    safe_order  an order's answers, safe for a sorted queue
    line        jobs sorted by the order
    ranked      the same, by the ranks of their users first
    places      the first jobs of a line, so many as there are places
    by_due      a line in two parts: jobs with a due time, and the others
    waiting     the two lines, and the jobs that stand aside
    gpuless     the jobs without a GPU that run, and those that may start
    arrays      the elements of an array that may be in a line
    queue       all of it together
"""
