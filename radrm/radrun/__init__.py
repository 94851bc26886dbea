"""`radrun`: starts a job's workers, and changes their number while it runs.

It imports nothing of radrm but `errors` and `elastic`, so it starts fast.
The files, in the order in which they may import one another:
    shards  which samples each worker trains on, and what a checkpoint holds of them (a folder)
    hub     the socket by which the workers take data, step and save
"""
