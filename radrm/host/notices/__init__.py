"""Tell users of their jobs: by mail, by a request to a URL, or by a program of theirs.

The file `storage/notices` has which notices there are. Each is sent by a process that becomes the
job's user: `start_notice`, which `outbox` starts, again after failures.
"""
