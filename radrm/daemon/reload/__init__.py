"""A changed configuration, while the daemon runs (HUP, `radrm config reload`).

The files, in the order in which they may import one another:
    changes     which settings have changed, and which of them need a restart
    reloading   read the configuration again, and apply what can be applied
"""
