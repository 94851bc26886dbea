"""Planners: what should change now? One class per file, registered below.

The files, in the order in which they may import one another:
    order_policy   an order and a policy; the head of the line waits, and all others behind it
    forecast       when a waiting job could start
    backfill       the same as `order_policy`, but jobs behind a waiting head may pass it
    ahead          when the jobs of the line are expected to start
    convergence    whether a job still improves, by the losses that it reports
    flowcon        the CPUs of a server follow the growth of its jobs
    specon         jobs that hardly improve any more move to devices with less to do
    capacity       which jobs run now, on which servers, with how many GPUs
    andreas        due times, weights and energy decide, and jobs that can save give way
    slots          running jobs give way to waiting ones at the end of their time slots
    idle           jobs that leave their GPUs idle are warned, then stopped
    added          the planners that a table of the configuration adds
    lateness       what late ends cost, what a stop costs, and what waiting saves (a folder)
    deadline       starts and stops jobs by what a late end costs
    elasticity     how fast a job runs at each size, what it gains, and who gives back (a folder)
    elastic        jobs with a range of GPUs use what is idle, and give it back
    servers        what the planners of jobs with parameter servers have in common (a folder)
    dlrover        sizes follow from what one worker and its servers use
    nearchus       jobs grow as long as they use what they have
"""

# `slots` and `idle` are not listed: `added` adds them where their tables ask for it.
PLANNERS = {
    "default": "radrm.planners.order_policy:OrderPolicy",
    "backfill": "radrm.planners.backfill:Backfill",
    "deadline": "radrm.planners.deadline:Deadline",
    "flowcon": "radrm.planners.flowcon:FlowCon",
    "specon": "radrm.planners.specon:SpeCon",
    "elastic": "radrm.planners.elastic:Elastic",
    "andreas": "radrm.planners.andreas:Andreas",
    "dlrover": "radrm.planners.dlrover:DLRover",
    "nearchus": "radrm.planners.nearchus:Nearchus",
}
