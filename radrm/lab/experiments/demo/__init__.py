"""The parts of `radrm demo`: its jobs, its private daemon, its numbers.

The files, in the order in which they may import one another:
    server   a private daemon that leaves nothing behind
    numbers  the figures of the runs, and a verdict
    run      the demo's job files, and one of its two servers while it runs
"""
