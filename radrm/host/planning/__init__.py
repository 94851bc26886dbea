"""Runs slow planners, each in a process of its own, so that none delays the daemon.

The files, in the order in which they may import one another:
    worker   the process that runs one planner (`host/workers`)
    service  the threads that ask these processes
"""
