"""Completion of command lines for bash, zsh and fish.

Theory of operation. The script of a shell (`radrm.bash`, `.zsh`, `.fish`) asks `radrm completion
SHELL -- WORD...` at each TAB. The answer's first line says what follows: candidates, or that the
shell itself completes a file, a folder or a command. Options and choices are read from
`words.json`, which `python -m tools.manual` makes from the declarations of all commands, so no
command is imported. Jobs, GPUs and users come from the daemon, within a second; without one there
are no candidates, and no message.

The files, in the order in which they may import one another:
    line    which word of a command line is completed, and the candidates for it
"""
