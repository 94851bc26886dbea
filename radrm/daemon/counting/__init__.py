"""What the daemon counts from its start on: the question `metrics`.

The files, in the order in which they may import one another:
    histogram  how many values lie within each bound
    counts     the counters and histograms of a daemon
"""
