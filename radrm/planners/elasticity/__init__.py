"""How fast a job runs at each size, what it gains by growing, and who gives back.

The files, in the order in which they may import one another:
    scaling  the seconds of a step at each number of workers, fitted to what was measured
    notes    what the planner has measured of each job
    cpus     more CPUs for a job that waits for data
    growing  who gets what is idle
    giving   who gives back to a waiting job
"""
