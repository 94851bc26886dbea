"""Layer 4: the daemon. It waits, gathers events, steps, saves, acts.

The files, in the order in which they may import one another:
    past_runs    convert ended attempts to past runs, which estimators learn from
    monitor      a thread that reads the devices
    serving      the socket: connections, requests in turn, answers as bytes (a folder)
    progress     convert what jobs report into events
    views        what clients name and are shown (a folder)
    outer        jobs that run inside jobs of Slurm (a folder)
    intake       from the spool to jobs (a folder)
    checkpoints  the folder of each job for its checkpoints
    launches     parts of the plan of a launch (a folder)
    launching    plan a launch: environment and limits
    elastic      attempts whose tasks change while they run (a folder)
    watching     a thread that submits the `.rad` files of watched folders
    probing      measure the CUDA context, by a job
    wakeups      what wakes the loop's thread
    rule_limit   a time limit for rules in the daemon's own thread
    mps          attempts that are MPS clients (a folder)
    attempts     convert what attempts' folders prove into events
    capping      memory caps by the driver: set, raised, checked
    counting     what the daemon counts from its start on (a folder)
    effects      carry out actions, one handler for each kind
    decisions    step, save, act
    loop         wait, gather events, process them
    answers      what clients may ask and command (a folder)
    replacing    replace the daemon by a new one in the same process
    main         put the daemon together, and end it
"""
