"""The commands by typer. It lists `submit` and `run` for the help; `main` runs them."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from radrm.cli.commands.submit import run as run_submit
from radrm.cli.listing import commands, function_of, of_group, parameters_of
from radrm.cli.parameters import (
    COMMAND,
    FLAG,
    NUMBER,
    REAL,
    SWITCH,
    TEXT,
    TEXTS,
    UNDESCRIBED,
    WORD,
    WORDS,
    Parameter,
)
from radrm.spellings import command_hint, option_hint

WrongUsage: Any = typer.BadParameter.__mro__[1]
"""The error that typer raises for a wrong command line: `UsageError` of its own click."""


def in_one_line(error: Any) -> str | None:
    """The command, the mistake and the next step; None if no argument was given."""
    context = error.ctx
    command = context.command_path if context is not None else f"radrm {sys.argv[1]}"
    if type(error).__name__ == "NoArgsIsHelpError":
        return None
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


_TYPES: dict[str, Any] = {
    FLAG: bool,
    SWITCH: bool | None,
    TEXT: str,
    TEXTS: list[str],
    NUMBER: int | None,
    REAL: float | None,
    WORD: str,
    WORDS: list[str],
    COMMAND: list[str],
}


def typed(
    function: Callable[..., int | None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """A typer command that calls `function`. Raises `typer.Exit` with the code it returns."""

    def command(**values: Any) -> None:
        missing = {each.name: each.default for each in parameters if values.get(each.name) is None}
        if code := function(**{**values, **missing}):
            raise typer.Exit(code)

    described = [_described(each) for each in parameters if each.kind not in UNDESCRIBED]
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {each.name: each.annotation for each in described}
    command.__dict__["__signature__"] = inspect.Signature(described)
    return command


def _described(parameter: Parameter) -> inspect.Parameter:
    """The Python parameter from which typer makes an option or argument."""
    kind, about, default = _TYPES[parameter.kind], _about(parameter), parameter.default
    if parameter.is_argument:
        optional = parameter.least is None
        kind, default = (kind | None, None) if optional else (kind, inspect.Parameter.empty)
    return inspect.Parameter(
        *(parameter.name, inspect.Parameter.KEYWORD_ONLY),
        default=default,
        annotation=Annotated[kind, about],
    )


def _about(parameter: Parameter) -> Any:
    metavar = parameter.metavar or None
    if parameter.is_argument:
        return typer.Argument(metavar=metavar, help=parameter.help)
    if parameter.kind == SWITCH:
        return typer.Option("/".join(parameter.flags), help=parameter.help)
    if parameter.kind not in (NUMBER, REAL):
        return typer.Option(*parameter.flags, metavar=metavar, help=parameter.help)
    return typer.Option(
        *parameter.flags,
        metavar=metavar,
        help=parameter.help,
        min=parameter.least,
        max=parameter.most,
        callback=_finite,
    )


def _finite(value: float | None) -> float | None:
    """Raise `BadParameter` for `nan`, which passes all limits, and for infinite numbers."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


_OWN_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""For commands that read their options from the option table."""


def make_app(only: str | None = None) -> typer.Typer:
    """Make the application. `only` names the single command that it contains: importing all
    commands takes long."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_radrm)
    for own in (submit, run):
        app.command(context_settings=_OWN_WORDS, add_help_option=False)(own)
    known = commands()
    for name in (only,) if only in known else known:
        if name in ("submit", "run"):
            continue
        if theirs := of_group(name):
            app.add_typer(_group(name, known[name], theirs))
            continue
        _add(app, name)
    return app


def _group(name: str, line: str, commands: Sequence[str]) -> typer.Typer:
    """The typer application of a group of commands."""
    made = typer.Typer(name=name, help=line, no_args_is_help=True, rich_markup_mode=None)
    made.callback()(_radrm)
    for each in commands:
        _add(made, each)
    return made


def _add(app: typer.Typer, name: str) -> None:
    parameters = parameters_of(name)
    mixed = not any(each.kind == COMMAND for each in parameters)
    own_help = any("--help" in each.flags for each in parameters)
    app.command(context_settings={"allow_interspersed_args": mixed}, add_help_option=not own_help)(
        typed(function_of(name), parameters)
    )


def _radrm() -> None:
    """Do nothing. Without a callback, typer would drop the name of a single command."""


def submit(context: typer.Context) -> None:
    """Submit job files, or one command after `--` (radrm submit --help)."""
    raise typer.Exit(run_submit(context.args))


def run(context: typer.Context) -> None:
    """Run one command in the queue, tied to this terminal (radrm run --help)."""
    from radrm.cli.commands.run import run as run_run  # few call it so

    raise typer.Exit(run_run(context.args))
