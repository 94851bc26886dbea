"""Power failures.

The files:
    synced    what a power failure leaves of a home
    failures  cuts the power at fault points, and starts daemons from what is left
"""
