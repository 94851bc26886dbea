"""Floor 3: the real world. Clocks, processes, files, sockets and GPUs.

The files, in the order in which they may import one another:
    clock          both clocks, scaled for software GPUs
    files          writing so that a crash leaves the old or the new, never half
    paths          where things lie
    trouble        which failures lie with the server and may pass
    sockets        AF_UNIX sockets of any path depth; who is at the other end
    cgroups        a control group for an attempt, where one can be made
    procfs         reads of /proc, each with a bound
    processes      identity of a process; all processes of an attempt
    owners         which attempt a process belongs to
    containers     which container a process is in, and whether an attempt started it
    source         what any source of GPU readings must offer
    strangers      processes on a device that radrm did not start
    stranger_rules what is due to them, and when
    stranger_watch telling of them and signalling them
    nvml           real GPUs, read through NVML (a folder)
    gpm            SM activity of Hopper and newer GPUs, through NVML too
    stream         a program that prints lines for as long as it lives, kept alive
    dcgm           SM activity from DCGM, by `dcgmi dmon`
    exporter       SM activity from dcgm-exporter's page of metrics
    nvidia_smi     real GPUs, read through `nvidia-smi` (a folder)
    readings       several sources as one: who lists, who tells SM activity
    software       software GPUs (a folder)
    mps            CUDA's MPS: control daemons kept alive, jobs as their clients (a folder)
    membership     the runner's own stay in its job's control group
    attempts       the folder of one attempt: claim, lock, records
    job_process    the job's own process, from the fork to its first instruction
    engines        container engines: their arguments, and telling them to end a container
    tails          the last lines that an attempt has printed
    runner         the small program that runs one attempt and outlives the daemon
    start_runner   where the process of a runner begins
    evidence       what an attempt's folder proves
    launcher       starts, adopts, signals and ends attempts
    tickets        names for submissions that sort by time
    spool          envelopes: how a submission reaches the daemon
    arrivals       what waits in the spool, user by user
    sources        which program files a job runs, in a few bytes
    submission     from a job file to its envelope
    watched        folders whose `.rad` files become jobs (a folder)
    schema         the store's tables, and how they were before
    store          everything that must survive, in SQLite
    home           which folders are radrm's own, and which numbers were given
    past           the store's jobs and attempts, read and never written
    estimation     how estimators are asked, so that none delays anybody (a folder)
    health         what `radrm doctor` looks at (a folder)
"""
