"""`radrm drain`: start no more jobs on GPUs; running jobs go on."""

from __future__ import annotations

import sys

from radrm.cli.parameters import DEVICES, FLAG, JSON, TEXT, Parameter
from radrm.cli.results import show_results
from radrm.client.commands import command_devices
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

_REASON = "Shown to users whose jobs wait for the GPU."
PARAMETERS = (
    DEVICES,
    Parameter("reason", TEXT, _REASON, "TEXT", ("--reason",)),
    Parameter("every", FLAG, "All GPUs, without asking.", flags=("--all",)),
    JSON,
)


def drain(devices: list[str], reason: str, every: bool, as_json: bool) -> int:
    """Start no more jobs on GPUs; running jobs go on.

    Only root and the user of the daemon may do this. Without DEVICE, all GPUs are drained;
    on a terminal you are asked first.

    \b
    Examples:
      radrm drain 3 --reason 'fan is loud'
      radrm drain --all --reason 'driver update at 18:00'
      radrm resume 3
    """
    if every and devices:
        raise UsageError("--all does not go with named devices; leave out one of them")
    if not devices and not every and on_terminal():
        confirm("Drain all GPUs of this server?")
    return show_results(command_devices("drain", devices, reason=reason), _describe, as_json)


def _describe(result: Document) -> str:
    return f"Drained GPU {result['index']}; undo: radrm resume {result['index']}"


def on_terminal() -> bool:
    """Whether a user can answer a question."""
    return sys.stdin.isatty()


def confirm(question: str) -> None:
    """Ask the user. Any answer but yes ends the command."""
    import typer

    typer.confirm(question, abort=True, err=True)
