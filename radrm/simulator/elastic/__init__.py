"""Running jobs that get another size.

A run whose trace has no column of `traces.steps` uses nothing here.

The files, in the order in which they may import one another:
    world     the simulated server with attempts that change their devices
    loop      radrm's own loop with jobs on GPUs that grow and shrink
    training  jobs without GPUs, with parameter servers and workers, and the record of their run
    training_live  such a job while it runs: its speed, and what it has done and used
    training_loop  runs these jobs by the daemon's own decisions
    traced    a trace of these jobs
"""
