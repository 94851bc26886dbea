"""Layer 4: the daemon. It waits, gathers events, steps, saves, acts.

The files, in the order in which they may import one another:
    learning   what an attempt that has ended teaches
    monitor    a thread that reads the devices
    serving    the socket: connections, requests in turn, answers as bytes (a folder)
    views      what clients name and are shown (a folder)
    intake     from the spool to jobs (a folder)
    launching  from a placement to the environment and logs of real processes
    watching   a thread that has `.rad` files made jobs
    probing    the CUDA context measured, by a job
    loop       wait, gather, step, save, act
    answers    what clients may ask and order (a folder)
    main       putting it together, and ending it
"""
