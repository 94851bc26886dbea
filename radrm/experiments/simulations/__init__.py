"""Compute the results of `radrm simulate`, `compare` and `replay`.

The files, in the order in which they may import one another:
    mixes       the published mix of jobs as a trace
    variants    ways to run a trace: rules, settings, estimator
    runs        run each variant with each seed
    sources     the jobs: of a file, or drawn
    documents   the results as JSON
    past        the daemon's own past jobs under other policies
    candidates  the settings that `--advise` tries
    advice      the best of them for some jobs
"""
