"""One line about a wrong command line, in the same form as that of `submit`."""

from __future__ import annotations

from typing import Any

import typer

from radrm.spellings import command_hint, option_hint

WrongUsage: Any = typer.BadParameter.__mro__[1]
"""The error that typer raises for a wrong command line: `UsageError` of its own click."""


def in_one_line(error: Any) -> str:
    """The command, the mistake and the next step; the help text if no argument was given."""
    context = error.ctx
    command = context.command_path if context is not None else "radrm"
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error.message)
    step = f"; see {command} --help"
    option = getattr(error, "option_name", None)
    if type(error).__name__ == "NoSuchOption" and option:
        known = [flag.lstrip("-") for each in context.command.params for flag in each.opts]
        hint = option_hint(option, known)
        return f"{command}: unknown option {option}{f'; {hint}' if hint else step}"
    message = " ".join(error.format_message().split()).rstrip(".")
    if message.startswith("No such command") and context is not None:
        word = message.split("'")[1] if "'" in message else ""
        hint = command_hint(word, list(getattr(context.command, "commands", {})))
        return f"{command}: unknown command {word}{f'; {hint}' if hint else step}"
    message = message.replace(
        "Input should be a valid number, unable to parse string as a number", "not a number"
    )
    return f"{command}: {message[0].lower()}{message[1:]}{step}"
