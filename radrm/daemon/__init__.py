"""Floor 4: the daemon. It waits, gathers events, steps, saves, acts.

The files, in the order in which they may import one another:
    intake       from what lies in the spool to a job
    launching    from a placement to the environment and logs of real processes
    monitor      a thread that reads the devices
    documents    what clients are shown, as JSON
    server       the socket: who asks, and their words
    loop         wait, gather, step, save, act
    requests     what clients may ask and order
    main         putting it together, and ending it
"""
