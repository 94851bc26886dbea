"""Parts of the plan of a launch.

The files, in the order in which they may import one another:
    logs  the paths of an attempt's logs
"""
