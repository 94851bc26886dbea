"""Read traces: from text to jobs.

The files, in the order in which they may import one another:
    job        one job of a trace
    table      text in columns, and the lines that cannot be used
    durations  columns with run times on kinds of GPU
    steps      columns with the parts of a training step, for jobs of several sizes
    trace      the trace: CSV text to jobs and back
    fill       values that a trace lacks, drawn from typical jobs
    users      jobs dealt to users
    make       a trace drawn from arrival times and kinds of jobs
    importers  readers of other forms of traces (a folder)
    alone      what the jobs of a past would be alone
    past       a daemon's own past as a trace
"""
