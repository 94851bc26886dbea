"""Planners: what should change now? One class per file, registered below.

The files, in the order in which they may import one another:
    order_policy   an order and a policy; the head of the line waits, and all others behind it
    forecast       when a waiting job could start
    backfill       the same as `order_policy`, but jobs behind a waiting head may pass it
"""

PLANNERS = {
    "default": "radrm.planners.order_policy:OrderPolicy",
    "backfill": "radrm.planners.backfill:Backfill",
}
