"""What should change? One planner per file; a planner is a class, named here once."""

PLANNERS = {
    "default": "radrm.planners.order_policy:OrderPolicy",
}
