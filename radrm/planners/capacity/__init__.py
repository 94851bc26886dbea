"""Which jobs run now, on which servers, with how many GPUs: the optimizer of `andreas`.

The files, in the order in which they may import one another:
    problem      jobs, their configurations, servers, and what a plan costs
    greedy       one construction of a plan, in a given order
    randomized   many constructions at once, with numpy; the cheapest counts
    durations    a job's run time in each configuration
    memory       what the planner keeps between two calls
    barred       GPUs that not each job may use
    situation    a snapshot as a problem
    settling     which server and which GPUs each job of a plan gets
    carrying     from the plan to proposals
"""
