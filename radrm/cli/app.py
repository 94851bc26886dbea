"""All commands, by typer. `submit` stands here for the help only: `main` runs it itself."""

from __future__ import annotations

from importlib import import_module

import typer

from radrm.cli.commands.submit import run as run_submit
from radrm.cli.listing import COMMANDS

_OWN_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""For commands whose options are those of the one option table."""


def make_app(only: str | None = None) -> typer.Typer:
    """The application. With the name of a command it has that one alone: people wait for
    what is imported, and `status` has no use for what `doctor` needs."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_radrm)
    app.command(context_settings=_OWN_WORDS, add_help_option=False)(submit)
    for name in (only,) if only in COMMANDS else COMMANDS:
        if name == "submit":
            continue
        command = getattr(import_module(f"radrm.cli.commands.{name}"), str(name))
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        elif name == "edit":
            app.command(context_settings=_OWN_WORDS, add_help_option=False)(command)
        elif name in ("estimate", "estimators", "summarize"):
            app.command(context_settings=_OWN_WORDS)(command)
        else:
            app.command()(command)
    return app


def _radrm() -> None:
    """`main` answers `--help` and `--version` itself; this makes one command a group of one."""


def submit(context: typer.Context) -> None:
    """Submit job files, or one command after `--` (radrm submit --help)."""
    raise typer.Exit(run_submit(context.args))
