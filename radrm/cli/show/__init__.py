"""Show results to people: tables, cards. Programs use `--json`.

The files, in the order in which they may import one another:
    styled       text with styles: plain in a pipe, drawn on a terminal
    columns      rows and columns that fit the terminal's width
    jobs         rows of jobs, and the words that describe a job
    next         what one needs next: the commands below `status`, and `radrm` alone
    formats      rows as `--format` lays them out
    devices      rows of GPUs, and of their reservations for users
    shares       rows of users with their recent GPU time, and of limits
    past         reports and the history
    card         one job with all its facts, and why it waits
    log          a job's log on standard output or error
    follow       `radrm status --follow`
    question     the question before a command touches everything
    estimates    the answers of estimators about one job
"""
