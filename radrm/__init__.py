"""radrm: a resource manager for shared GPU servers.

The layers, from the ground up; imports go down, or to earlier files of a folder:
    0  errors, core, tracer, report, elastic, radrun
    1  progress_lines, jobfile, last_words, oom, passing, hints, config, interference, deadlines
    1  simulated
    1  orders, policies, planners, estimators, recovery, rules
    2  wiring
    3  host, simulator
    4  daemon
    5  client
    6  experiments, pages, api
    7  metrics, web, agents
    8  cli, __main__
"""

__version__ = "0.2.0"
