"""The commands: their parameters, their help and what they show.

The files, in the order in which they may import one another:
    submit      `radrm submit`, on a path that imports little
    completion  `radrm completion`
    run         `radrm run`
    logs        `radrm logs`
    status      `radrm status`
    top         `radrm top`
    serve       `radrm serve`
    explain     `radrm explain`
    edit        `radrm edit`
    jobs        `radrm cancel`, `hold`, `release`, `requeue`, `wait`
    saving      jobs that save: `radrm checkpoint`, `migrate`, `resize`, `progress`
    gpus        `radrm gpus`, `drain`, `resume`
    limits      `radrm limits`
    report      `radrm report`
    history     `radrm history`
    metrics     `radrm metrics`
    reserve     `radrm reserve`
    mps         `radrm mps`
    estimate    `radrm estimate`, `estimators`
    spool       `radrm spool`
    summarize   `radrm summarize`
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
