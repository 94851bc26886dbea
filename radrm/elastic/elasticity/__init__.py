"""How fast a job runs at each size, what it gains by growing, and who gives back.

The files, in the order in which they may import one another:
    notes    what was measured of each job, and the seconds of a step at each number of workers
    growing  who gets what is idle, and more CPUs for a job that waits for data
    giving   who gives back to a waiting job
"""
