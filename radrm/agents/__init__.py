"""Layer 8: tools for coding agents, `radrm mcp`. It needs the extra `mcp`.

The files, in the order in which they may import one another:
    bounded   plain, short texts, few rows and few requests at once: an agent reads all it gets
    answers   the typed answers of the tools
    jobs      questions about jobs: lists, one job, logs, past jobs, why one has failed or waits
    machine   questions about the server: GPUs, use, limits, who waits for what
    preview   what a submission would do, and what it would need
    commands  commands about the user's own jobs
    server    the tools by name, and the process that offers them
    command  `radrm mcp`
    wing     what it adds to radrm
"""
