"""What requests name and what answers show: jobs looked up, rows, documents.

The files, in the order in which they may import one another:
    globs             many globs against one name
    names             names and globs, looked up for one request
    references        which jobs a word means
    arguments         the arguments of requests, checked
    rows              the rows of `status`
    expected          when jobs are expected to start and to end, and how late
    cpu_shares        the CPU share of a running job
    sizes             the GPUs, roles, tasks and memory caps of a job
    ended             what is said of jobs that have ended (a folder)
    documents         the JSON documents of jobs
    reservations      the JSON documents of reservations
    device_documents  the JSON documents of devices, and the server in one line
    sharing           what sharing costs on the GPUs here
    explanations      why a job waits, and how its attempts ran
    shares            the recent GPU time of users, and whose job is next
    tables            the rows of `status`, kept while no job changes
"""
