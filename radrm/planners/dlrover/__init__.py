"""DLRover: the size of a job with parameter servers follows from what one worker uses.

The files, in the order in which they may import one another:
    plans     the published formulas
    stages    which formula is due, and what it gives for a job within its limits
    rule      the planner
"""
