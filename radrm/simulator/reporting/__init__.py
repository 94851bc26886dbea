"""What a trace's columns `cpus loss_k report_s saves checkpoint_s` add to a run.

A run without these columns, and without CPUs in its scenario, uses nothing here.

The files, in the order in which they may import one another:
    cpus  the simulated server with CPUs that jobs share by weights and caps
    loop  radrm's own loop with reports of progress, shares, checkpoints and saved work
"""
