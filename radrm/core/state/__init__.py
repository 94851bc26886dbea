"""What `step` remembers, indexed so that no event looks at every job.

The files, in the order in which they may import one another:
    pauses     how long what failed waits before it is tried again
    window     mean SM activity since the last change
    ledger     who holds how much of a device
    isolation  a rule that fails is set aside and harms nobody
    waiting    the queue, kept in order
    arrays     which elements of an array may be in the queue
    state      everything `step` remembers
"""
