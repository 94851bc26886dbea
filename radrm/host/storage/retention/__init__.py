"""What goes when it is old, or when there is too much of it.

The files, in the order in which they may import one another:
    refused  files that lay in the spool and were no envelopes
    rows     rows of the store: finished jobs and what belongs to them
    sweep    removes in small pieces, once an hour
"""
