"""The commands: their parameters, their help and what they show.

The files, in the order in which they may import one another:
    submit      `radrm submit`, on a path that imports little
    completion  `radrm completion`
    run         `radrm run`
    logs        `radrm logs`
    status      `radrm status`, `explain`
    top         `radrm top`
    serve       `radrm serve`
    edit        `radrm edit`
    jobs        `radrm cancel`, `hold`, `release`, `requeue`, `wait`
    saving      jobs that save: `radrm checkpoint`, `migrate`, `resize`, `progress`
    gpus        `radrm gpus`, `drain`, `resume`
    report      `radrm report`, `history`, `limits`
    metrics     `radrm metrics`
    reserve     `radrm reserve`
    mps         `radrm mps`
    estimate    `radrm estimate`, `estimators`, `summarize`
    spool       `radrm spool`
    daemon      `radrm daemon`
    demo        `radrm demo`
    bench       `radrm bench`
    profile     `radrm profile`
    simulate    `radrm simulate`, `compare`
    trace       `radrm trace`
    replay      `radrm replay`
    config      `radrm config`
    doctor      `radrm doctor`
    service     `radrm service`
    mcp         `radrm mcp`
    slurm       `radrm slurm`, `install-slurm-names`
    slurm_step  `radrm slurm-step`
    pilot       `radrm pilot`
"""
