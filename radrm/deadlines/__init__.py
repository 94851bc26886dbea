"""When jobs will end, and what that costs.

The files, in the order in which they may import one another:
    costs       the price of energy and of lateness, and the costs of a configuration
    remaining   the run time that a job has left
    ranking     the waiting jobs with due times, by what a delay of them costs
"""
