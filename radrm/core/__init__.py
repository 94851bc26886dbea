"""Layer 0: the records and decisions of radrm. No clock, no file, no process, no randomness.

Events go in, decisions come out. The files, in the order in which they may import one another:
    units        sizes and durations as users write them
    words        states, outcomes, collocation modes
    records      jobs, attempts, devices, placements (a folder)
    actions      what `step` tells the host to do
    proposals    what a planner may propose
    decision     the result of one step
    events       what `step` can learn
    transitions  the table of all state changes of a job
    remaining    when a job ends: expected, at most, and by which source
    settings     the settings of the table `[core]`
    state        what `step` remembers (a folder)
    constraints  what a placement or proposal must satisfy (a folder)
    reservations  devices that are reserved for users, or for nobody
    seen         what can be seen of the state, as records and as plain data
    view         what a rule can see of the state
    snapshot     what code outside the core can see of the state, also in another process
    rules        the interfaces of the rules
    lifecycle    how jobs and attempts start, change and end (a folder)
    planning     how the core calls rules (a folder)
    in_service   which devices are in service, and which jobs stand aside
    adoption     restart: restores stored records, adopts running attempts
    scheduler    `step`, the entry point
"""
