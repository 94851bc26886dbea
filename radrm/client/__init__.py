"""Layer 5: talking to a daemon: requests, following, tails, exit codes. No typer, no rich.

The files, in the order in which they may import one another:
    text        plain text and JSON, without rich
    connection  the connection to a daemon
    exits       exit codes of commands that wait for jobs
    tail        a log file, read as it grows
    follow      following jobs: their states and logs
"""
