"""The parts of the tour: its jobs, its private daemon, its numbers.

The files, in the order in which they may import one another:
    jobs     the demo's job files
    server   a private daemon that leaves nothing behind
    numbers  what a run came to, and which was better
"""
