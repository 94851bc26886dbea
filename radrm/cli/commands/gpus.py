"""`radrm gpus`, `drain` and `resume`."""

from __future__ import annotations

from radrm.cli.parameters import DEVICES, FLAG, JSON, TEXT, YES, Parameter
from radrm.cli.show.devices import devices_page
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json, say
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

GPUS_PARAMETERS = (
    Parameter("processes", FLAG, "Also each process on them.", flags=("--processes", "-p")),
    Parameter("user", TEXT, "Only processes of this user.", "NAME", ("--user",)),
    Parameter("mine", FLAG, "Only your own processes.", flags=("--mine",)),
    JSON,
)


def gpus(processes: bool, user: str, mine: bool, as_json: bool) -> None:
    """Show the GPUs: memory, SM activity, power, jobs.

    Below the table: remarks on their health (ECC errors, heat), and unmanaged processes.
    These are processes that radrm did not start.

    \b
    Examples:
      radrm gpus
      radrm gpus --processes         who uses what, process by process
      radrm gpus --mine              only your processes
      radrm gpus --json
    """
    if mine and user:
        raise UsageError("--mine and --user exclude each other")
    listed = processes or mine or bool(user)
    with Client() as client:
        devices = client.ask("gpus", processes=listed, mine=mine, user=user or None)
    if as_json:
        print_json(devices)
    else:
        show(*devices_page(devices, "of yours" if mine else f"of {user}" if user else ""))


_REASON = "Shown to users whose jobs wait for the GPU."
DRAIN_PARAMETERS = (
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
    from radrm.cli.results import show_results  # here, because everybody waits for `gpus`
    from radrm.cli.show.question import be_sure
    from radrm.client.connection import command_devices

    if not devices and not yes:
        be_sure("Drain all GPUs of this server?", "name GPUs, or add --yes")
    return show_results(command_devices("drain", devices, reason=reason), _drained, as_json)


def _drained(result: Document) -> str:
    return f"Drained GPU {result['index']}; undo: radrm resume {result['index']}"


RESUME_PARAMETERS = (DEVICES, JSON)


def resume(devices: list[str], as_json: bool) -> int:
    """Let drained GPUs take jobs again.

    Only root and the user of the daemon may do this. Without DEVICE, all GPUs are resumed.

    \b
    Examples:
      radrm resume 3
      radrm resume
    """
    from radrm.cli.results import show_results
    from radrm.client.connection import command_devices

    results = command_devices("resume", devices)
    if not results and not as_json:
        say("No GPU is drained.")
    return show_results(results, lambda r: f"Resumed GPU {r['index']}", as_json)
