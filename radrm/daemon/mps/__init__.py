"""Attempts that are MPS clients: how they are stopped, and why they may have failed.

The files, in the order in which they may import one another:
    stops     TERM and KILL, after the work of clients is removed
    failures  whether a failure lies with the MPS server; it waits until that was asked
"""
