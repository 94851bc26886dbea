"""Floor 5: the commands people type. One command per file; rendering apart.

The files, in the order in which they may import one another:
    listing      every command with its line of help
    client       the connection to a daemon
    exits        exit codes of commands that wait for jobs
    submit       `radrm submit`, on a path that imports little
    columns      rows and columns that fit the width there is
    render       tables and lines for people
    card         one job on one card
    options      what several commands take alike
    tail         a log file, read as it grows
    follow       following jobs: their states and logs
    live         the live picture of `radrm status --follow`
    logs         `radrm logs`
    status       `radrm status`
    explain      `radrm explain`
    wait         `radrm wait`
    orders       orders about jobs and devices, and what came of them
    cancel       `radrm cancel`
    hold         `radrm hold`
    release      `radrm release`
    requeue      `radrm requeue`
    edit         `radrm edit`
    gpus         `radrm gpus`
    drain        `radrm drain`
    resume       `radrm resume`
    mps          `radrm mps`
    accuracy     the figures by which estimators are compared
    estimates    one job file put to the estimators
    datasets     measured jobs to try estimators on
    estimate     `radrm estimate`
    estimators   `radrm estimators`
    spool        `radrm spool`
    watch        `radrm watch`
    summarize    `radrm summarize`
    daemon       `radrm daemon`
    demo_jobs    the demo's job files
    demo_server  a private daemon that leaves nothing behind
    demo_numbers what a run came to, and which was better
    demo_view    the demo's screen and table
    demo         `radrm demo`
    bench_steps  how far a program says it is
    bench_numbers what the rounds of a measurement came to
    bench_pcie   traffic between host and GPU while copies run
    bench_server the daemon of a measurement
    bench_place  which GPU a measurement may have
    bench_rounds some copies of a job at once, watched to their end
    bench        `radrm bench`
    traces       traces, profiles and tables of typical jobs, from files
    simulations  variants of a run, their options, and running many
    simulation_tables what simulations came to
    plots        pictures of simulations
    simulate     `radrm simulate`
    compare      `radrm compare`
    replay       `radrm replay`
    toml_text    writing TOML that people read
    settings     every setting there is, and what is wrong with those given
    config       `radrm config`
    doctor       `radrm doctor`
    usage        what is wrong with a command line, in one line
    app          all commands but `submit`, by typer
    main         the entry points
"""
