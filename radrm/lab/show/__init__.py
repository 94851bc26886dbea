"""Show the results of experiments to people.

The files, in the order in which they may import one another:
    progress     a progress bar for long work
    demo         the screen and the table of `radrm demo`
    simulations  tables of `radrm simulate` and `radrm compare`
    replay       tables and sentences of `radrm replay`, a live run beside its simulation
    advice       the best settings for some jobs
    collocation  the table of `radrm bench collocate`
    estimates    estimators, and their accuracy
"""
