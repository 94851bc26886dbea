"""Reservations, and the memory that they take over time.

The files, in the order in which they may import one another:
    claims     how much of a device is taken in an interval, and when a part of it is free
    of_device  the reservations of one device
    of_planners  an index of the reservations that planners made
    of_users   the reservations for users and for maintenance
"""
