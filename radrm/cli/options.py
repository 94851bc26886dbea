"""What several commands take alike."""

from __future__ import annotations

from typing import Annotated

import typer

REFERENCES = "ids (12), arrays (12), elements (12_3), tickets, names or globs ('sweep-*')"

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Jobs = Annotated[list[str], typer.Argument(metavar="JOB", help=f"Jobs: {REFERENCES}.")]
Job = Annotated[
    str, typer.Argument(metavar="JOB", help="A job: id (12), element (12_3), ticket or name.")
]
Devices = Annotated[
    list[str] | None,
    typer.Argument(metavar="DEVICE", help="GPU indices or UUIDs; all of them if left out."),
]
