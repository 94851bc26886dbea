"""radrm: a resource manager for shared GPU servers.

The floors, from the ground up; imports go down, or to earlier files of a folder:
    0  errors, core, tracer
    1  record, option_values, options, radfile, oom, config, modelled
    1  orders, policies, planners, estimators, recovery
    2  wiring
    3  host, simulator
    4  daemon
    5  cli
"""

__version__ = "0.1.0"
