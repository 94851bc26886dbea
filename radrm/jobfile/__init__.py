"""Layer 1: the job file: the one option table, its values, its reader.

The files, in the order in which they may import one another:
    record   records that `radrm submit` imports
    values   how the values of options are read
    options  the one table of options
    radfile  a job file, read
"""
