"""Layer 3: the simulator. It makes the daemon's own decisions in virtual time.

It imports the core and the rules, never `host`. It reads no clock and no file, so the same
seed gives the same run, bit for bit.

The files, in the order in which they may import one another:
    traces      from text to the jobs of a trace (a folder)
    run         the record of a simulated run
    sizes       how often jobs changed their size, and who held the GPUs
    metrics     the metrics of a run
    bounds      lower bounds: the best that a run could be
    scenario    the settings of a run: server, configuration, loop, seed
    estimates   the estimates of a trace's jobs
    auto        the daemon's own estimator over these estimates; it learns during the run
    courses     how one job behaves: stages, work, memory, demand; what is known of it
    world       the simulated server: attempts, memory, speed, power of the GPUs
    history     collects the record during a run
    window      the daemon's window over SM activity, without readings
    scheduling  radrm's own loop: the daemon's `step` and a simulated host
    reporting   shared CPUs, reports of progress and checkpoints (a folder)
    elastic     jobs that get another size while they run (a folder)
    published   the published prototype's loop
    engine      simulates a trace: jobs in, a run out
    servers     a run on many equal servers (a folder)
"""
