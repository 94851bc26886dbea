"""Layer 4: the daemon. It waits, gathers events, steps, saves, acts.

The files, in the order in which they may import one another:
    monitor      a thread that reads the devices
    devices      the GPUs, simulated or real, with their clock and MPS
    serving      the socket: connections, requests in turn, answers as bytes (a folder)
    progress     convert what jobs report into events
    launches     what a launch gets: amounts and logs
    views        what clients name and are shown (a folder)
    steps        who runs attempts inside the jobs of another resource manager
    intake       from the spool to jobs (a folder)
    checkpoints  the folder of each job for its checkpoints
    slurm_variables  Slurm's variables in jobs that were submitted as Slurm's
    launching    plan a launch: environment and limits
    watching     a thread that submits the `.rad` files of watched folders
    probing      measure the CUDA context, by a job
    parts        what the daemon is made of: assemblies, each closed by itself
    elastic      attempts whose tasks change while they run
    rule_limit   a time limit for rules in the daemon's own thread
    mps          attempts that are MPS clients
    attempts     convert what attempts' folders prove into events
    capping      memory caps by the driver: set, raised, checked
    counting     what the daemon counts from its start on
    effects      carry out actions, one handler for each kind
    past_runs    what ended attempts have shown, for estimators
    decisions    step, save, act
    loop         wait, gather events, process them
    answers      what clients may ask and command (a folder)
    last_state   answer questions from the store while no daemon runs
    replacing    replace the daemon by a new one in the same process
    main         put the daemon together, and end it
"""
