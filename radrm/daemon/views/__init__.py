"""What requests name and what answers show: jobs looked up, rows, documents.

The files, in the order in which they may import one another:
    arguments         the arguments of requests, checked
    references        which jobs a word means: names, globs
    rows              the rows of `status`
    expected          when jobs are expected to start and to end, and how late
    sizes             the GPUs, roles, tasks and memory caps of a job
    verdict           what is said of a job that has ended
    waiting_reasons   why a job waits, in sentences
    way_out           what a waiting job's user can type so that it starts
    reservations      the JSON documents of reservations
    device_documents  the JSON documents of devices, and the server in one line
    documents         the JSON documents of jobs
    submitted         what a user gave with a job, for those who may see it
    explanations      why a job waits, how its attempts ran, what sharing costs
    shares            the recent GPU time of users, and whose job is next
    tables            the rows of `status`, kept while no job changes
"""
