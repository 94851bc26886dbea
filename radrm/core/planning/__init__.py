"""How the core calls rules and checks their answers.

The files, in the order in which they may import one another:
    interrupt  stops a rule that takes too long
    shapes     checks of the shape of answers
    near       which idle devices are near one another
    choosing   which of the devices that take a job it gets
    placing    where a job could start, by a policy, or by another if the first fails
    asking     how planners are asked, and what they may answer
    thinking   has a slow planner make its plan
    reserving  reservations of planners: how they begin, are renewed, and end
    planners   calls the planners in force, carries out their proposals
    requests   what users ask of running jobs: another size or place
    reasons    why a job waits
"""
