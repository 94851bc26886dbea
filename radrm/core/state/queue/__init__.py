"""The waiting jobs in the order of service.

The files, in the order in which they may import one another:
    order    orders, and their answers, safe for a sorted queue
    line     jobs sorted by an order, by ranks of users, by due times
    lines    the two lines, and the jobs that stand aside
    queue    all of it together, with the limits of arrays and of jobs without a GPU
"""
