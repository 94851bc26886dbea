"""Floor 4: the daemon. It waits, gathers events, steps, saves, acts.

The files, in the order in which they may import one another:
    answers       answers as bytes, and how many of them are held for slow readers
    slots         who may have a connection
    server        the socket: who asks, and their words
    turns         the requests under way, in pieces, fair over users
    globs         many globs against one name
    references    which jobs a word means
    envelopes     an envelope read anew: its job file, and whose it is
    estimation    what a job will need, as the daemon comes to know it
    learning      what an attempt that has ended teaches
    intake        from what lies in the spool to jobs
    launching     from a placement to the environment and logs of real processes
    monitor       a thread that reads the devices
    asked         what clients say, read with suspicion
    documents     what clients are shown, as JSON
    explanations  why a job waits, and how its attempts ran
    tables        the rows of `status`, kept while no job changes
    scan          one look into the spool
    watching      a thread that has `.rad` files made jobs
    probing       the CUDA context measured, by a job
    loop          wait, gather, step, save, act
    chosen        which jobs an order is about
    questions     what anybody may ask
    followers     which jobs can never start once others are cancelled
    device_orders what may be ordered about devices and MPS
    orders        what people may order
    requests      the protocol's words, and who answers each
    main          putting it together, and ending it
"""
