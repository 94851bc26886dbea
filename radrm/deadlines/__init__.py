"""What the ends of jobs cost.

The files, in the order in which they may import one another:
    costs       the price of energy and of lateness, and the costs of a configuration
    ranking     the waiting jobs with due times, by what a delay of them costs
"""
