"""Attempts whose tasks change while they run: what the daemon tells `radrun`, and believes of it.

The files, in the order in which they may import one another:
    placements  the text of a placement, for `radrun`
    ends        how the tasks of an attempt have ended
    resizes     resizes under way: ask, watch for the answer, check it, withdraw
"""
