"""radrm under Slurm ([cluster.md]). All of it runs as a user, and asks by `client/`; but for
`serving`, which the daemon runs.

The files, in the order in which they may import one another:
    documents  the JSON documents of its commands
    asking    run Slurm's own commands, and read what they print
    hostlists  lists of nodes as Slurm writes them
    comment   what the daemon writes into the AdminComment of a Slurm job
    outer     the Slurm job in which this process runs, and the daemon of its node
    facts     what Slurm says of its configuration, a partition and nodes
    scripts   batch scripts that run through the step
    jobs      what Slurm says of the jobs of the partition
    accounts  what the ended jobs of the partition have used
    setup     lines for Slurm's own configuration
    submitting  from a job file to the words of sbatch
    telling   what the daemon tells Slurm's controller, for all jobs of its node
    serving   the steps that wait on this server for their jobs: what the daemon asks of Slurm
    conf      what a slurm.conf says before it is live
    checks    what `doctor --slurm` looks at: what fits jobs that share GPUs, and what does not
    step      the batch step of a job: submits it, waits, runs its attempts (a folder)
    pilot     a daemon of one user in an ordinary Slurm job (a folder)
    inside    what Slurm's words mean inside a job of radrm (a folder)
    commands  the commands (a folder)
    named     what commands with the names of Slurm run, which lie in `programs`
    wing      what it adds to radrm
"""
