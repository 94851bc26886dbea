"""The memory of `step`, with indices so that no event looks at every job.

The files, in the order in which they may import one another:
    pauses     growing pauses after failures
    doubts     devices on which jobs fail at once
    timers     when `step` must be called again, and why
    readings   checks of readings, memory by job, the measured use of an attempt
    energy     the energy of a device, divided among its attempts
    load       the SM activity of a device: its mean, and what a policy uses
    reserved   reservations, and the memory that they take over time
    sharing    what sharing costs, learned from periods in which jobs share a device
    ledger     the occupants and reservations of a device
    nodes      the CPUs and the host memory of nodes
    isolation  a failed rule rests, and a default replaces it
    users      what users run now, their limits, and their recent GPU time
    queue      the waiting jobs in the order of service (a folder)
    state      all of it together
"""
