"""Copies of a program on one GPU: run, watched, counted.

The files, in the order in which they may import one another:
    steps    how far a program says it is
    numbers  what the rounds of a measurement came to
    pcie     traffic between host and GPU while copies run
    server   the daemon of a measurement
    place    which GPU a measurement may have
    rounds   some copies of a job at once, watched to their end
"""
