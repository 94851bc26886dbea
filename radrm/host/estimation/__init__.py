"""Runs estimators so that a slow, large or broken one does not delay the daemon or other users.

The rules themselves are pure (`radrm.estimators`). The daemon runs them in a worker process that
has no rights. It traces training in other processes, as the job's user, with that user's programs,
and in a sandbox.

The files, in the order in which they may import one another:
    asking        asks the estimators about one job, and measures their time
    kernel        calls of the kernel: namespaces, mounts, rights
    call_filter   a filter of the calls that a traced program makes
    confine       limits a trace: no network, limited time, memory and processes
    pythons       the Pythons that a job may run, and the file by which a trace takes them
    sandbox       the files that a trace sees: what it writes goes to memory
    collecting    runs the command in the sandbox; the one document that counts
    worker        the process that runs the daemon's estimators (`host/workers`)
    start_tracer  the parent of a trace: starts it in its sandbox, and ends its processes
    tracing       a trace, from its start to its end, and what a killed daemon has left of it
    commands      what is traced of a job: its factory, or its own command
    probe         the job that measures a CUDA context
    service       the threads that wait for both, and the answers that are kept
"""
