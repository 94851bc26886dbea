"""SpeCon's published experiments, in the simulator: `python -m benchmarks.specon`.

The files, in the order in which they may import one another:
    farm      the jobs of an experiment, and one run of them
    rows      the published experiments, and ours beside them
    page      the section of docs/reproduction-flowcon-specon.md
    __main__  the command
"""
