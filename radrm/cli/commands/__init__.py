"""The commands, one file each: its parameters, its help and what it shows.

The files, in the order in which they may import one another:
    submit      `radrm submit`, on a path that imports little
    completion  `radrm completion`
    run         `radrm run`
    logs        `radrm logs`
    status      `radrm status`
    top         `radrm top`
    serve       `radrm serve`
    explain     `radrm explain`
    wait        `radrm wait`
    cancel      `radrm cancel`
    hold        `radrm hold`
    release     `radrm release`
    requeue     `radrm requeue`
    checkpoint  `radrm checkpoint`
    migrate     `radrm migrate`
    resize      `radrm resize`
    progress    `radrm progress`
    edit        `radrm edit`
    gpus        `radrm gpus`
    limits      `radrm limits`
    report      `radrm report`
    history     `radrm history`
    metrics     `radrm metrics`
    reserve     `radrm reserve`
    drain       `radrm drain`
    resume      `radrm resume`
    mps         `radrm mps`
    estimate    `radrm estimate`
    estimators  `radrm estimators`
    spool       `radrm spool`
    summarize   `radrm summarize`
    daemon      `radrm daemon`
    demo        `radrm demo`
    bench       `radrm bench`
    profile     `radrm profile`
    simulate    `radrm simulate`
    compare     `radrm compare`
    trace       `radrm trace`
    replay      `radrm replay`
    config      `radrm config`
    doctor      `radrm doctor`
    service     `radrm service`
    install_slurm_names  `radrm install-slurm-names`
    mcp         `radrm mcp`
    slurm       `radrm slurm`
    slurm_step  `radrm slurm-step`
    pilot       `radrm pilot`
"""
