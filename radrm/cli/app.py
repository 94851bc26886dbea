"""The typer application of all commands. It lists `submit` and `run` for the help; `main` runs
them."""

from __future__ import annotations

from importlib import import_module

import typer

from radrm.cli.commands.submit import run as run_submit
from radrm.cli.listing import COMMANDS, EVERYDAY
from radrm.cli.typed import typed

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
    for name in (only,) if only in COMMANDS else COMMANDS:
        if name in ("submit", "run"):
            continue
        python_name = name.replace("-", "_")
        module = import_module(f"radrm.cli.commands.{python_name}")
        command = getattr(module, python_name)
        if name in EVERYDAY:
            app.command()(typed(command, module.PARAMETERS))
        elif isinstance(command, typer.Typer):
            app.add_typer(command)
        elif name == "edit":
            app.command(context_settings=_OWN_WORDS, add_help_option=False)(command)
        elif name in ("estimate", "estimators", "summarize"):
            app.command(context_settings=_OWN_WORDS)(command)
        else:
            app.command()(command)
    return app


def _radrm() -> None:
    """Do nothing. Without a callback, typer would drop the name of a single command."""


def submit(context: typer.Context) -> None:
    """Submit job files, or one command after `--` (radrm submit --help)."""
    raise typer.Exit(run_submit(context.args))


def run(context: typer.Context) -> None:
    """Run one command in the queue, tied to this terminal (radrm run --help)."""
    from radrm.cli.commands.run import run as run_run  # few call it so

    raise typer.Exit(run_run(context.args))
