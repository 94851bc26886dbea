"""Layer 7: tools for coding agents, `radrm mcp`. It needs the extra `mcp`.

The files, in the order in which they may import one another:
    bounded   plain, short texts and few rows: an agent reads all that it gets
    answers   the typed answers of the tools
    asking    ask the daemon: one short line for each error, few requests at once
    jobs      questions about jobs: lists, one job, logs, past jobs
    triage    why one job has failed, or waits
    machine   questions about the server: GPUs, use, limits
    pressure  how full the server is, and who waits for what
    preview   what a submission would do, and what it would need
    commands  commands about the user's own jobs
    server    the tools by name, and the process that offers them
"""
