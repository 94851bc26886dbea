"""The waiting jobs in the order of service.

The files, in the order in which they may import one another:
    order       the interface of an order, which sorts the waiting jobs
    safe_order  an order's answers, safe for a sorted queue
    waiting     the sorted lines
    arrays      the elements of an array that may be in a line
    queue       all of it together
"""
