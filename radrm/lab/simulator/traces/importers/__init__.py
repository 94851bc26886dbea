"""Readers of other forms of traces. The caller passes lines; no file is opened here.

A value that a form lacks comes from a *profile* (jobs alone on the server, by name) or is
drawn (`simulator.traces.draw`). The trace's notes count the jobs that are left out.

The files, in the order in which they may import one another:
    aids     the other inputs of importers: profiles, fill; dates
    thesis   the RAD-RM thesis's two traces
    philly   Microsoft's Philly trace
    slurm    the output of `sacct -P`
    andreas  the jobs of ANDREAS' simulations, drawn
    forms    all forms by name
"""
