"""Planners: what should change now? One class per file, registered below.

The files, in the order in which they may import one another:
    order_policy   an order and a policy; the head of the line waits, and all others behind it
    forecast       when a waiting job could start
    backfill       the same as `order_policy`, but jobs behind a waiting head may pass it
    ahead          when the jobs of the line are expected to start
    durations      how long a job would run on each kind and number of GPUs
    slots          running jobs give way to waiting ones at the end of their time slots
    idle           jobs that leave their GPUs idle are warned, then stopped
    lateness       what late ends cost, what a stop costs, and what waiting saves (a folder)
    deadline       starts and stops jobs by what a late end costs
"""

# Wings have more of them.
PLANNERS = {
    "strict": "radrm.planners.order_policy:OrderPolicy",
    "backfill": "radrm.planners.backfill:Backfill",
    "deadline": "radrm.planners.deadline:Deadline",
}
NOT_CHOSEN = {
    "slots": "write [slots] length_s = 43200",
    "idle": 'write [idle] action = "notify"',
}
"""What to write in place of the names of those that `added` adds where their tables ask for it."""
