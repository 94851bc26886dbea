"""What clients name and what they are shown: jobs found, rows, cards.

The files, in the order in which they may import one another:
    globs         many globs against one name
    references    which jobs a word means
    asked         what clients say, read with suspicion
    documents     what clients are shown, as JSON
    explanations  why a job waits, and how its attempts ran
    tables        the rows of `status`, kept while no job changes
"""
