"""The shard server: which samples each worker trains on, and what a checkpoint holds of them.

It does not need the daemon. The files, in the order in which they may import one another:
    positions   ranges of positions, and what is left of a dataset
    book        the state machine of all datasets: todo, doing, consumed
    boundary    at which step all workers pause together
    store       the state of each checkpoint, on disk
    lines       JSON lines over a socket, bounded
    messages    reads the fields of a worker's message
    members     the workers on one side, `radrun` on the other
    dealing     how a generation begins, and how its workers get data
    service     answers the workers' requests
"""
