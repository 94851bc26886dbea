"""Host memory of jobs with a range of it: it grows in place, and after a death.

The files, in the order in which they may import one another:
    growing   more memory for a running job
    larger    what follows a death at the limit
"""
