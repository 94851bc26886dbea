"""Layer 1: how jobs that share a GPU slow one another down. Pure arithmetic.

The files, in the order in which they may import one another:
    chips        SMs and clocks of common GPUs
    model        speeds and SM activity of jobs that share devices
    learning     what sharing costs here, from periods in which jobs share a device
"""
