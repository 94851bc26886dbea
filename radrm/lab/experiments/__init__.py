"""Experiments that commands, benchmarks and tests share. Nothing here draws tables.

The files, in the order in which they may import one another:
    datasets   read measured jobs, to try estimators on
    evaluation  try estimators on measured jobs, and compare them
    simulations  traces under policies, with many seeds (a folder)
    demo       the parts of `radrm demo` (a folder)
    live       a trace through a daemon (a folder)
    collocate  copies of a program on one GPU (a folder)
    profiling  a few steps of a job on each kind and number of GPUs
"""
