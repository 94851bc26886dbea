"""`radrm resume`: a drained device takes jobs again."""

from __future__ import annotations

from radrm.cli.options import Devices, Json
from radrm.cli.orders import order_devices


def resume(devices: Devices = None, as_json: Json = False) -> None:
    """Let drained GPUs take jobs again.

    For root and the daemon's own user. With no DEVICE all are meant.

    \b
    Examples:
      radrm resume 3
      radrm resume
    """
    order_devices("resume", devices or [], lambda r: f"Resumed GPU {r['index']}", as_json)
