"""Planners: what should change now? One class per file, registered below."""

PLANNERS = {
    "default": "radrm.planners.order_policy:OrderPolicy",
}
