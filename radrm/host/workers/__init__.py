"""Processes that compute for the daemon: one question at a time, with limits.

A message between the two is its length (4 bytes, big-endian) and MessagePack.

The files, in the order in which they may import one another:
    messages  messages on a pipe
    child     the process: its pipes, its limits, its rights
    parent    the daemon's side: starts it, asks it, ends it
"""
