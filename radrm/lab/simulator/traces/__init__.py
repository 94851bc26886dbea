"""Read traces: from text to jobs.

The files, in the order in which they may import one another:
    table      text in columns, and the lines that cannot be used
    job        one job of a trace: its times on kinds of GPU, its steps at several sizes
    trace      the trace: CSV text to jobs and back
    draw       what is drawn: values that a trace lacks, users
    importers  readers of other forms of traces (a folder)
    solo       what jobs would show alone, from readings of shared devices
    past       a daemon's own past as a trace: what its jobs would be alone
"""
