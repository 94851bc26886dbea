"""`--format`: rows of jobs as the user lays them out, in squeue's letters or by field names.

The files, in the order in which they may import one another:
    letters   what each letter of squeue shows
    template  read a format, and lay out rows by it
"""
