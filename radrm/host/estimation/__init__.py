"""Runs estimators so that a slow, large or broken one does not delay the daemon or other users.

The rules themselves are pure (`radrm.estimators`). The daemon runs them in a worker process that
has no rights. It traces a training step in another process, as the job's user and with that
user's Python.

The files, in the order in which they may import one another:
    marks         the fingerprint of a job
    asking        asks the estimators about one job, and measures their time
    confine       limits a tracer: no network, limited time, memory and processes
    worker        the process that runs the daemon's estimators (`host/workers`)
    start_tracer  the tracer's parent: starts the tracer and ends its processes
    tracing       the tracer's process, from its start to its end
    commands      what is traced of a job
    lines         whose trace is next
    probe         the job that measures a CUDA context
    service       the threads that wait for both, and the answers that are kept
"""
