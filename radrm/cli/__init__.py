"""Layer 7: the commands people type. One command per file; rendering apart.

The files, in the order in which they may import one another:
    listing      every command with its line of help
    options      what several commands take alike
    simulations  variants of a run, their options, and running many
    toml_text    writing TOML that people read
    settings     every setting there is, and what is wrong with those given
    usage        what is wrong with a command line, in one line
    show         tables, cards and plots (a folder)
    orders       orders about jobs and devices, and what came of them
    commands     the commands, one file each (a folder)
    app          all commands but `submit`, by typer
    main         the entry points
"""
