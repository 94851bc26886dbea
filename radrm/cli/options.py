"""Options that several commands share, for commands that always use typer."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.cli.parameters import DEVICES, JSON

Json = Annotated[bool, typer.Option(*JSON.flags, help=JSON.help)]
Devices = Annotated[list[str] | None, typer.Argument(metavar=DEVICES.metavar, help=DEVICES.help)]
