"""What is said of jobs that have ended.

The files, in the order in which they may import one another:
    verdict   what the next such job should ask for
"""
