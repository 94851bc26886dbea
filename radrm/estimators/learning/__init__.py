"""Corrections of an estimator's figures by earlier runs.

The files, in the order in which they may import one another:
    contexts     the size of the CUDA context on this machine
    learned      an estimator's bias and spread on this machine, and its errors that we measured
    profile      the run time on each kind and number of GPUs
    ratios       bounds of SM activity and duration
    contention   what a shared attempt would have shown alone
    fingerprint  a short text that is equal for two runs of the same job
"""
