"""Readers of other forms of traces. The caller passes lines; no file is opened here.

A value that a form lacks comes from a *profile* (jobs alone on the server, by name) or is
drawn (`simulator.traces.fill`). The trace's notes count the jobs that are left out.

The files, in the order in which they may import one another:
    profiles    jobs alone on the server
    aids        the other inputs of importers: profile, fill, job files
    kinds       family and usual SM activity of a published job's model
    moments     dates and times as traces write them
    published   the RAD-RM thesis's two traces
    prototype   the published prototype's submission script
    philly      Microsoft's Philly trace
    slurm       the output of `sacct -P`
    alibaba     Alibaba's traces of 2020 and 2023
    gavel       Gavel's traces
    andreas     the jobs of ANDREAS' simulations, drawn
    forms       all forms by name
"""
