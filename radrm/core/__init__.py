"""Layer 0: what radrm knows and decides. No clock, no file, no process, no randomness.

The files, in the order in which they may import one another:
    units         sizes and durations as people write them
    words         states, outcomes, ways of sharing
    records       what is known of jobs, attempts, devices, placements
    actions       what `step` may ask of the world
    proposals     what a planner may want
    events        what `step` may learn of the world
    transitions   the table of a job's life
    settings      the numbers that a site may change
    physics       how jobs slow one another down (for software GPUs and the simulator)
    state         what `step` remembers (a folder)
    validation    what no rule may break
    view          what a rule may see
    rules         the shapes of the rules that plug in
    lifecycle     what starts, stops and ends an attempt
    service       which devices are in service, and who stands aside meanwhile
    dependencies  who follows whom, and what an end means for them
    edits         what people change about a job
    planning      how rules are asked (a folder)
    scheduler     `step`
"""
