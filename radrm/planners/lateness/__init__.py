"""What the planner `deadline` weighs.

The files, in the order in which they may import one another:
    tardiness   costs, the places that are kept for waiting jobs, and what is remembered
    stopping    whether stopping a running job for a waiting one pays
    later       whether a job that could start would end cheaper if it waited
"""
