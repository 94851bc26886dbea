"""Memory of jobs that may grow: host memory in place and after a death, GPU memory up to a cap.

The files, in the order in which they may import one another:
    growing   more memory for a running job
    larger    what follows a death at the limit
    caps      the most GPU memory that an attempt may hold
"""
