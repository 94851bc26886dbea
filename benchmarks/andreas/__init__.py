"""Measure the optimizer of `andreas`.

calls  seconds for one call, at 10 and at 100 nodes
"""
