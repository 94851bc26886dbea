"""Readers of other forms of traces. The caller passes lines; no file is opened here.

A value that a form lacks comes from a *profile* (jobs alone on the server, by name) or is
drawn (`simulator.traces.draw`). The trace's notes count the jobs that are left out.

The files, in the order in which they may import one another:
    aids     the other inputs of importers: profiles, fill, job files; dates
    thesis   the RAD-RM thesis's two traces, and the published prototype's submission script
    philly   Microsoft's Philly trace
    slurm    the output of `sacct -P`
    alibaba  Alibaba's traces of 2020 and 2023
    gavel    Gavel's traces, and its profile
    andreas  the jobs of ANDREAS' simulations, drawn
    forms    all forms by name
"""
