"""Compute the results of `radrm simulate`, `compare` and `replay`.

The files, in the order in which they may import one another:
    variants  ways to run a trace: rules, settings, estimator
    runs      run each variant with each seed; the results as JSON
    sources   the jobs: read from files, or drawn from the published mix
    past      the daemon's own past jobs under other policies
    advice    the settings that `--advise` tries, and the best of them for some jobs
"""
