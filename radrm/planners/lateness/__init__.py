"""What the planner `deadline` weighs.

The files, in the order in which they may import one another:
    candidates  the waiting jobs that are tried, and what a call takes over from the one before
    tardiness   costs, the places that are kept for waiting jobs, and what is remembered
    later       where a job could run, what that costs, and whether it ends cheaper if it waits
    stopping    whether stopping or moving a running job pays
"""
