"""Parts of a job's card.

The files, in the order in which they may import one another:
    attempts  the attempts of a job, a row for each
"""
