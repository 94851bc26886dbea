"""Floor 4: the daemon. It waits, gathers events, steps, saves, acts.

The files, in the order in which they may import one another:
    references    which jobs a word means
    envelopes     an envelope read anew: its job file, and whose it is
    estimation    what a job will need, as the daemon comes to know it
    learning      what an attempt that has ended teaches
    intake        from what lies in the spool to jobs
    launching     from a placement to the environment and logs of real processes
    monitor       a thread that reads the devices
    documents     what clients are shown, as JSON
    explanations  why a job waits, and how its attempts ran
    server        the socket: who asks, and their words
    scan          one look into the spool
    probing       the CUDA context measured, by a job
    loop          wait, gather, step, save, act
    asked         what clients say, read with suspicion
    questions     what anybody may ask
    chosen        which jobs an order is about
    followers     which jobs can never start once others are cancelled
    orders        what people may order
    requests      the protocol's words, and who answers each
    main          putting it together, and ending it
"""
