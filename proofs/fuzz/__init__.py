"""Fuzzing: hostile inputs for everything that reads what others wrote.

A parser returns a value, or raises one of its own errors with one printable line. Anything else is
a finding. To fuzz a new parser, add one row to a file of `targets/`.

The files, in the order in which they may import one another:
    mutations       changes valid texts, JSON documents and words of a command line
    judging         one input: the target, its limits, and what counts as a finding
    scratch         files that targets read
    targets         the table of all targets (a folder; a file for each area)
    campaign        many inputs for each target; findings are saved
    hostile_daemon  the same against a real daemon, by four ways in
    __main__        `make fuzz`
"""
