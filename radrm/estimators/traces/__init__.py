"""Traces of a training step, which `radrm.tracer` writes in the user's Python.

The files, in the order in which they may import one another:
    document  a tracer's document, checked
    replay    its events, replayed through the caching allocator
    traced    the record of one traced step, and its text
"""
