"""NEARCHUS: a job with parameter servers grows as long as it uses what it has.

The files, in the order in which they may import one another:
    plans     the published decisions
    rule      the planner
"""
