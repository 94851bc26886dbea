"""`radrm drain`: start no more jobs on GPUs; running jobs go on."""

from __future__ import annotations

from radrm.cli.parameters import DEVICES, JSON, TEXT, YES, Parameter
from radrm.cli.results import show_results
from radrm.cli.show.question import be_sure
from radrm.client.commands import command_devices
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

_REASON = "Shown to users whose jobs wait for the GPU."
PARAMETERS = (
    DEVICES,
    Parameter("reason", TEXT, _REASON, "TEXT", ("--reason",)),
    YES,
    JSON,
)


def drain(devices: list[str], reason: str, yes: bool, as_json: bool) -> int:
    """Start no more jobs on GPUs; running jobs go on.

    Only root and the user of the daemon may do this. Without DEVICE, all GPUs are drained:
    on a terminal you are asked first, elsewhere it needs --yes.

    \b
    Examples:
      radrm drain 3 --reason 'fan is loud'
      radrm drain --yes --reason 'driver update at 18:00'
      radrm resume 3
    """
    if yes and devices:
        raise UsageError("--yes means all GPUs; leave it out, or the named ones")
    if not devices and not yes:
        be_sure("Drain all GPUs of this server?", "name GPUs, or add --yes")
    return show_results(command_devices("drain", devices, reason=reason), _describe, as_json)


def _describe(result: Document) -> str:
    return f"Drained GPU {result['index']}; undo: radrm resume {result['index']}"
