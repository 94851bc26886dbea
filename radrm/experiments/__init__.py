"""Layer 6: what benchmarks, commands and tests share: measuring, simulating, replaying. No tables.

The files, in the order in which they may import one another:
    accuracy   the figures by which estimators are compared
    estimates  one job file put to the estimators
    datasets   measured jobs to try estimators on
    traces     traces, profiles and tables of typical jobs, from files
    demo       the parts of the tour (a folder)
    collocate  copies of a program on one GPU (a folder)
"""
