"""The commands: their parameters, their help and what they show.

The files, in the order in which they may import one another:
    submit      `radrm submit`, on a path that imports little
    completion  `radrm completion`
    run         `radrm run`
    logs        `radrm logs`
    status      `radrm status`, `explain`
    today       `radrm` alone, on a terminal
    jobs        `radrm cancel`, `hold`, `release`, `requeue`, `wait`
    edit        `radrm edit`
    saving      jobs that save: `radrm checkpoint`, `migrate`, `resize`, `progress`
    gpus        `radrm gpus`, `drain`, `resume`
    report      `radrm report`, `history`, `limits`
    reserve     `radrm reserve`
    mps         `radrm mps`
    estimate    `radrm estimate`, `summarize`
    spool       `radrm spool`
    daemon      `radrm daemon`
    config      `radrm config`
    doctor      `radrm doctor`
    service     `radrm service`
"""
