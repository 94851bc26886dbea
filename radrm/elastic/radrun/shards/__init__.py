"""The shard server: which samples each worker trains on, and what a checkpoint holds of them.

It does not need the daemon. The files, in the order in which they may import one another:
    book        the state machine of all datasets: todo, doing, consumed
    store       the state of each checkpoint, on disk
    messages    reads the fields of a worker's message
    dealing     how a generation begins, and how its workers get data
    service     answers the workers' requests
"""
