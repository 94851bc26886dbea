"""What the end of a job means for others: the rest of its array, and the jobs that follow it.

The files, in the order in which they may import one another:
    max_fails     stops an array whose elements keep failing
    dependencies  lets an end reach the jobs that follow
"""
