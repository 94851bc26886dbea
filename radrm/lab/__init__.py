"""The laboratory: simulate, measure and compare, with the server's own rules.

The files, in the order in which they may import one another:
    documents    the JSON documents of its commands
    simulator    the daemon's own decisions in virtual time (a folder)
    experiments  what commands, benchmarks and tests share (a folder)
    options      options that `simulate`, `compare` and `replay` share
    show         tables of results (a folder)
    commands     the commands (a folder)
    wing         what it adds to radrm
"""
