"""Notices in the store: which a decision causes, and their rows until they are sent.

The files, in the order in which they may import one another:
    facts   what a notice says of a job or array
    book    the table `notices`
"""
