"""What lies on disk: paths, spool, store, history.

The files, in the order in which they may import one another:
    files       writing so that a crash leaves the old or the new, never half
    paths       where things lie
    tickets     names for submissions that sort by time
    spool       envelopes: how a submission reaches the daemon
    arrivals    what waits in the spool, user by user
    sources     which program files a job runs, in a few bytes
    submission  from a job file to its envelope
    schema      the store's tables
    database    the store's SQLite file: opening, transactions, rows as records
    submitted   envelope, parsed job file and edits of a job
    runs        past runs, for the estimators
    energy      the energy book: what jobs used in each hour
    ended       jobs and attempts in small pieces, for sums
    notices     what users are told, until it is sent
    retention   what goes when it is old (a folder)
    store       everything that must survive, in SQLite
    history     the store's jobs and attempts, read and never written
"""
