"""What several commands take alike."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="Job ids or tickets.")]
