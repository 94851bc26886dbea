"""`radrm resume`: let drained GPUs take jobs again."""

from __future__ import annotations

from radrm.cli.parameters import DEVICES, JSON
from radrm.cli.results import show_results
from radrm.client.commands import command_devices

PARAMETERS = (DEVICES, JSON)


def resume(devices: list[str], as_json: bool) -> int:
    """Let drained GPUs take jobs again.

    Only root and the user of the daemon may do this. Without DEVICE, all GPUs are resumed.

    \b
    Examples:
      radrm resume 3
      radrm resume
    """
    results = command_devices("resume", devices)
    if not results and not as_json:
        print("No GPU is drained.")
    return show_results(results, lambda r: f"Resumed GPU {r['index']}", as_json)
