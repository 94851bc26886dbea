"""What the planner `deadline` weighs.

The files, in the order in which they may import one another:
    candidates  the waiting jobs that are tried
    seen        what a call can take over from the one before
    tardiness   costs, the places that are kept for waiting jobs, and what is remembered
    servers     where a job could run, and what that would cost
    stopping    whether stopping or moving a running job pays
    later       whether a job that could start would end cheaper if it waited
"""
