"""Show results to people: tables, cards, plots. Programs use `--json`.

The files, in the order in which they may import one another:
    styled       text with styles: plain in a pipe, drawn on a terminal
    columns      rows and columns that fit the terminal's width
    sizes        ranges, roles and tasks of a job
    jobs         rows of jobs, and the words that describe a job
    formats      rows as `--format` lays them out (a folder)
    devices      rows of GPUs, and of their reservations for users
    shares       rows of users with their recent GPU time, and of limits
    past         reports and the history (a folder)
    parts        parts of a card (a folder)
    card         one job with all its facts
    explanation  why a job waits, device by device
    log          a job's log on standard output or error
    live         the live picture of `radrm status --follow`
    follow       `radrm status --follow`
    findings     the findings of `radrm doctor`
    question     the question before a command touches everything
    progress     a progress bar for long work
    experiments  the results of experiments (a folder)
"""
