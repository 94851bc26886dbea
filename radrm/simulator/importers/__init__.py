"""Other forms of traces, made into jobs. Lines come in; nothing is opened here.

What a form does not tell comes from a *profile* (jobs alone on the server, by name) or is
drawn (`simulator.fill`). What is left out is counted in the trace's notes.

The files, in the order in which they may import one another:
    profiles    jobs alone on the server
    aids        what importers need beside the lines
    kinds       what a published job's model tells
    moments     moments as traces write them
    published   the RAD-RM thesis's two traces
    prototype   the published prototype's submission script
    philly      Microsoft's Philly trace
    slurm       what `sacct -P` prints
    forms       all of them by name
"""
