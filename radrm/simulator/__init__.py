"""Layer 3: the modelled world. The daemon's own decisions, in virtual time.

It imports the core and the rules that it is given, never `host`, and reads no clock or file:
a seed gives the same run, bit for bit.

The files, in the order in which they may import one another:
    job         one job of a trace
    run         what a simulated run was
    table       text in columns, with the lines that cannot be used
    trace       the trace: CSV text to jobs
    fill        what a trace does not tell, drawn from typical jobs
    importers   other forms of traces
    past        a daemon's own past as a trace
    metrics     what a run comes to
    bounds      how good a run could be at best
    scenario    what is simulated beside the jobs: server, configuration, loop, seed
    estimates   what the estimators say of a trace's jobs
    auto        what the daemon's own estimator makes of that, learning as the run goes on
    world       the modelled server: attempts, memory, speed, what GPUs draw
    history     what is written down while a run goes on
    window      the daemon's window over SM activity, without readings
    scheduling  radrm's own loop: the daemon's `step` and a host that obeys it
    published   the published prototype's loop
    engine      a trace in, a run out
    servers     many servers alike
"""
