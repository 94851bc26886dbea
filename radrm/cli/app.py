"""All commands, by typer. `submit` stands here for the help only: `main` runs it itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from radrm import __version__
from radrm.cli.cancel import cancel
from radrm.cli.config import config
from radrm.cli.daemon import daemon
from radrm.cli.demo import demo
from radrm.cli.doctor import doctor
from radrm.cli.drain import drain
from radrm.cli.edit import edit
from radrm.cli.explain import explain
from radrm.cli.gpus import gpus
from radrm.cli.hold import hold
from radrm.cli.logs import logs
from radrm.cli.release import release
from radrm.cli.requeue import requeue
from radrm.cli.resume import resume
from radrm.cli.status import status
from radrm.cli.submit import run as run_submit
from radrm.cli.wait import wait

app = typer.Typer(
    help="Queue jobs for the GPUs of this server, several on one GPU where that is safe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


_FIRST: tuple[Callable[..., None], ...] = (
    status,
    explain,
    logs,
    wait,
    cancel,
    hold,
    release,
    requeue,
)
_LAST: tuple[Callable[..., None], ...] = (gpus, drain, resume, daemon, doctor, demo)
"""In the order in which the help lists them, `edit` between."""

_OWN_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""For commands whose options are those of the one option table."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"radrm {__version__}")
        raise typer.Exit


@app.callback()
def radrm(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(context_settings=_OWN_WORDS, add_help_option=False)
def submit(context: typer.Context) -> None:
    """Submit job files, or one command after `--` (radrm submit --help)."""
    raise typer.Exit(run_submit(context.args))


for command in _FIRST:
    app.command()(command)
app.command(context_settings=_OWN_WORDS, add_help_option=False)(edit)
for command in _LAST:
    app.command()(command)
app.add_typer(config)
