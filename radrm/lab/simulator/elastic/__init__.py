"""Running jobs that get another size.

A run whose trace has no column of `traces.steps` uses nothing here.

The files, in the order in which they may import one another:
    loop      radrm's own loop, and its server, with jobs on GPUs that grow and shrink
    training  jobs without GPUs, with parameter servers and workers, and a trace of them
"""
