"""Layer 8: the commands that users type, one per file, and what they show.

The files, in the order in which they may import one another:
    listing      every command with its line of help
    parameters   the parameters of everyday commands, and reading them
    typed        the same parameters for typer
    options      options that several other commands share
    simulation_options  options that `simulate`, `compare` and `replay` share
    toml_text    write TOML that people read
    settings     list all settings, and check those that are given
    usage        one line about a wrong command line
    show         tables, cards and plots (a folder)
    top          the live view of `radrm top` (a folder)
    completion   completion of command lines by shells (a folder)
    slurm        radrm for people and scripts that come from Slurm (a folder)
    service      what the commands of `radrm service` share
    results      the results of commands about jobs and devices
    streaming    a job's output on this process's own
    dry_run      what `submit --dry-run` shows
    commands     the commands, one file each (a folder)
    app          all commands but `submit`, by typer
    main         the entry points
    slurm_commands  what commands with the names of Slurm run
"""
