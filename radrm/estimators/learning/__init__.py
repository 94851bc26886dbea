"""Corrections of an estimator's figures by earlier runs.

The files, in the order in which they may import one another:
    errors_seen  each estimator's errors in our measurements (data)
    contexts     the size of the CUDA context on this machine
    learned      an estimator's bias and spread on this machine
    profile      the run time on each kind and number of GPUs
    ratios       bounds of SM activity and duration
    contention   what a shared attempt would have shown alone
    fingerprint  a short text that is equal for two runs of the same job
"""
