"""Floor 0: what radrm knows and decides. No clock, no file, no process, no randomness.

The files, in the order in which they may import one another:
    units          sizes and durations as people write them
    words          states, outcomes, ways of sharing
    records        what is known of jobs, attempts, devices, placements
    actions        what `step` may ask of the world
    proposals      what a planner may want
    events         what `step` may learn of the world
    transitions    the table of a job's life
    settings       the numbers that a site may change
    pauses         how long what failed waits before it is tried again
    window         mean SM activity since the last change
    ledger         who holds how much of a device
    isolation      a rule that fails is set aside and harms nobody
    waiting        the queue, kept in order
    arrays         which elements of an array may be in the queue
    state          everything `step` remembers
    validation     what no rule may break
    view           what a rule may see
    rules          the shapes of the rules that plug in
    assembly       from chosen devices to a placement
    fallback       a policy's choice, checked, or another's in its place
    asking         how planners are asked
    physics        how jobs slow one another down (for software GPUs and the simulator)
    lifecycle      what starts, stops and ends an attempt
    service        which devices are in service, and who stands aside meanwhile
    dependencies   who follows whom, and what an end means for them
    edits          what people change about a job
    scheduler      `step`
"""
