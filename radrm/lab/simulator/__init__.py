"""The simulator. It makes the daemon's own decisions in virtual time.

It imports the core and the rules, never `host`. It reads no clock and no file, so the same
seed gives the same run, bit for bit.

The files, in the order in which they may import one another:
    traces      from text to the jobs of a trace (a folder)
    run         the record of a simulated run
    metrics     the metrics of a run
    bounds      lower bounds: the best that a run could be
    scenario    the settings of a run: server, configuration, loop, seed
    estimates   the estimates of a trace's jobs, and the daemon's own estimator over these
    courses     how one job behaves: stages, work, memory, demand; what is known of it
    loop        virtual time, the one loop over it, and the core's decisions in it
    world       the simulated server: attempts, memory, speed, power of the GPUs
    history     collects the record during a run
    scheduling  radrm's own loop: a simulated host for the core's actions
    reporting   shared CPUs, reports of progress and checkpoints
    elastic     jobs that get another size while they run (a folder)
    published   the published prototype's loop
    engine      simulates a trace: jobs in, a run out
    servers     a run on many equal servers
"""
