"""SpeCon's published experiments, in the simulator: `python -m benchmarks.specon`.

The files, in the order in which they may import one another:
    farm      the jobs of an experiment, and one run of them
    rows      the published experiments, and ours beside them
    page      the section of docs/lab/reproduction-flowcon-specon.md
    runs      the time of one run, for `make bench`
    __main__  the command
"""
