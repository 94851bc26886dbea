"""How estimators are asked, so that a slow, greedy or broken one delays nobody.

The rules themselves are pure and lie in `radrm.estimators`. In the daemon they think in
a process of their own, without its rights; a training step is traced in another, as its
user and in the user's Python.

The files, in the order in which they may import one another:
    asking        one job put to the estimators, with the time each takes
    confine       what is taken from a tracer: the network, time, processes
    worker        the process in which the daemon's estimators think
    thinker       that process, seen from the daemon
    start_tracer  where the tracer's process begins, and who sees to its end
    leftovers     traces under way, written down for the next daemon
    tracing       the tracer's process, from its start to its end
    probe         what measures a CUDA context
    service       the threads that wait for both, and what is remembered of their answers
"""
