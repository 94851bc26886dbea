"""Floor 4: the daemon. It waits, gathers events, steps, saves, acts.

The files, in the order in which they may import one another:
    references    which jobs a word means
    intake        from what lies in the spool to jobs
    launching     from a placement to the environment and logs of real processes
    monitor       a thread that reads the devices
    documents     what clients are shown, as JSON
    explanations  why a job waits, and how its attempts ran
    server        the socket: who asks, and their words
    scan          one look into the spool
    loop          wait, gather, step, save, act
    asked         what clients say, read with suspicion
    questions     what anybody may ask
    orders        what people may order
    requests      the protocol's words, and who answers each
    main          putting it together, and ending it
"""
