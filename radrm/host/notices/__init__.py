"""Tell users of their jobs: by mail, by a request to a URL, or by a program of theirs.

The file `storage/notices` has which notices there are. Each is sent by a process that becomes the
job's user. The daemon itself opens no connection and starts no program of a user.

The files, in the order in which they may import one another:
    message       subject, text and JSON of a notice
    start_notice  the main program of the process that sends one
    outbox        sends what waits in the store, again after failures
"""
