"""Pictures of a real radrm for the documents.

The files, in the order in which they may import one another:
    page      the web page, by Chromium
    session   a session in a terminal, animated
    policies  what policies do with the same jobs, by the simulator
"""
