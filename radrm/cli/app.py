"""All commands, by typer. `submit` stands here for the help only: `main` runs it itself."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from radrm import __version__
from radrm.cli.submit import run as run_submit

COMMANDS = (
    "status",
    "explain",
    "logs",
    "wait",
    "cancel",
    "hold",
    "release",
    "requeue",
    "edit",
    "gpus",
    "drain",
    "resume",
    "mps",
    "estimate",
    "estimators",
    "simulate",
    "compare",
    "replay",
    "summarize",
    "spool",
    "watch",
    "daemon",
    "bench",
    "doctor",
    "config",
    "demo",
)
"""Each in a file of its name, in the order in which the help lists them."""

_OWN_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""For commands whose options are those of the one option table."""


def make_app(only: str | None = None) -> typer.Typer:
    """The application. With the name of a command it has that one alone: people wait for
    what is imported, and `status` has no use for what `doctor` needs."""
    app = typer.Typer(
        help="Queue jobs for the GPUs of this server, several on one GPU where that is safe.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_radrm)
    app.command(context_settings=_OWN_WORDS, add_help_option=False)(submit)
    for name in (only,) if only in COMMANDS else COMMANDS:
        command = getattr(import_module(f"radrm.cli.{name}"), str(name))
        if isinstance(command, typer.Typer):
            app.add_typer(command)
        elif name == "edit":
            app.command(context_settings=_OWN_WORDS, add_help_option=False)(command)
        elif name in ("estimate", "estimators", "summarize"):
            app.command(context_settings=_OWN_WORDS)(command)
        else:
            app.command()(command)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"radrm {__version__}")
        raise typer.Exit


def _radrm(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def submit(context: typer.Context) -> None:
    """Submit job files, or one command after `--` (radrm submit --help)."""
    raise typer.Exit(run_submit(context.args))
