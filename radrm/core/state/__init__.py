"""The memory of `step`, with indices so that no event looks at every job.

The files, in the order in which they may import one another:
    pauses     growing pauses after failures
    timers     when `step` must be called again, and why
    window     mean SM activity since the last change
    holding    the measured use of an attempt on a device
    energy     the energy of a device, divided among its attempts
    cohort     the user whose clients are on an MPS server
    load       the SM activity of a device that a policy uses
    readings   checks of readings, and memory by job
    reserved   reservations, and the memory that they take over time (a folder)
    sharing    what sharing costs, learned from periods in which jobs share a device
    ledger     the occupants and reservations of a device
    nodes      the CPUs and the host memory of nodes
    isolation  a failed rule rests, and a default replaces it
    users      what users run now, and their limits
    use        the recent GPU time of users and groups
    queue      the waiting jobs in the order of service (a folder)
    followers  an index from a job to its followers
    state      all of it together
"""
