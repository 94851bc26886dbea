"""Running jobs that get another size.

A run whose trace has no column of `traces.steps` uses nothing here.

The files, in the order in which they may import one another:
    world     the simulated server with attempts that change their devices
    loop      radrm's own loop with jobs on GPUs that grow and shrink
"""
