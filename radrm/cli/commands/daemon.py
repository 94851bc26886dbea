"""`radrm daemon`: run the daemon in the foreground."""

from __future__ import annotations

import gc
import os
from typing import Annotated

import typer

from radrm.errors import UsageError


def daemon(
    gpus: Annotated[
        str | None,
        typer.Option(metavar="sim:SPEC", help="Use simulated GPUs, as sim:4xA100-40GB."),
    ] = None,
    time_scale: Annotated[
        float, typer.Option(metavar="N", help="Run the clock of simulated GPUs N times as fast.")
    ] = 1.0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as policy=exclusive."),
    ] = None,
) -> None:
    """Run the daemon until Ctrl-C or TERM; jobs go on without it."""
    if not 0 < time_scale <= 10_000:
        raise UsageError(f"--time-scale={time_scale:g} is not above 0 and at most 10000")
    # Imported here, so that the imports for the help text stay few. What they make stays: to look
    # for garbage in it would be a tenth of the start, and part of each later search.
    gc.disable()
    from radrm.daemon.main import run, set_up_logging
    from radrm.host.storage.database import damage_told
    from radrm.host.storage.paths import paths_for

    gc.freeze()
    gc.enable()
    set_up_logging()
    with damage_told(paths_for(os.environ, os.getuid()).database):
        run(gpus, time_scale, settings or [])
