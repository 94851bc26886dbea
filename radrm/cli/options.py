"""Options that several commands share, for commands that always use typer."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from radrm.cli.parameters import DEVICES, JSON


def finite(value: float | None) -> float | None:
    """The callback of every option that takes a number with a point: `nan` passes all limits."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


Json = Annotated[bool, typer.Option(*JSON.flags, help=JSON.help)]
Devices = Annotated[list[str] | None, typer.Argument(metavar=DEVICES.metavar, help=DEVICES.help)]
