"""radrm as a service of systemd: the files that `radrm service install` writes.

The files, in the order in which they may import one another:
    ownership   who besides root can change a file, or what leads to it
    code        what root runs when the unit starts
    files       the unit and its companions: rendered, marked, compared with what is there
    choices     what a group chooses, and the configuration that says so
    steps       install and uninstall: first the steps, then the doing
"""
