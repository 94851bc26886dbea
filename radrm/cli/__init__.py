"""Layer 7: the commands that users type, and what they show.

The files, in the order in which they may import one another:
    guide        the pages of the guide
    listing      every command with its line of help
    help         the help of a command
    parameters   the parameters that several commands have
    listening    the address of --listen
    toml_text    write TOML that people read
    settings     list all settings, and check those that are given
    show         tables and cards (a folder)
    completion   completion of command lines by shells (a folder)
    results      the results of commands about jobs and devices
    dry_run      what `submit --dry-run` shows
    commands     the commands (a folder)
    main         the entry points
"""
