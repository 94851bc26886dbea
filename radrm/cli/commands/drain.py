"""`radrm drain`: give no more jobs to a device; those on it run on."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from radrm.cli.options import Devices, Json
from radrm.cli.orders import order_devices
from radrm.errors import UsageError


def drain(
    devices: Devices = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="What people are told who wait for it.")
    ] = "",
    yes: Annotated[bool, typer.Option("--all", help="All devices, without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Give no more jobs to GPUs; those on them run on.

    For root and the daemon's own user.

    With no DEVICE all are meant; on a terminal you are asked first.

    \b
    Examples:
      radrm drain 3 --reason 'fan is loud'
      radrm drain --all --reason 'driver update at 18:00'
      radrm resume 3
    """
    if yes and devices:
        raise UsageError("--all does not go with named devices; leave out one of them")
    if not devices and not yes and on_terminal():
        typer.confirm("Drain all devices of this server?", abort=True, err=True)
    order_devices(
        "drain",
        devices or [],
        lambda r: f"Drained GPU {r['index']}; undo: radrm resume {r['index']}",
        as_json,
        reason=reason,
    )


def on_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()
