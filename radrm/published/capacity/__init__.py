"""Which jobs run now, on which servers, with how many GPUs: the optimizer of `andreas`.

The files, in the order in which they may import one another:
    problem      jobs, configurations, servers, what a plan costs; one construction of a plan
    randomized   many constructions at once, with numpy; the cheapest counts
    memory       what the planner keeps between two calls
    situation    a view as a problem, and the GPUs that not each job may use
    carrying     which GPUs each job of a plan gets, and from the plan to proposals
"""
