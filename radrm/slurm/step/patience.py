"""Ask Slurm again: its controller may be restarting, or be away.

A restart resets connections, and a command that waits for an answer then fails (`Connection reset
by peer`, or `Unexpected message received`, as Slurm 22.05 was seen to say). The texts differ with
releases and commands, so none is read: whether the controller is up is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from radrm.errors import RadrmError
from radrm.host.slurm import is_up
from radrm.slurm.step import signals

T = TypeVar("T")
_PAUSE_S, _PING_S = 1.0, 5.0
_TRIES = 3
"""How often a controller may refuse that is up."""


def patiently(ask: Callable[[], T], patience_s: float, say: Callable[[str], None]) -> T:
    """Return what `ask` returns, which asks Slurm. It is called again while the controller is away,
    for at most `patience_s`, or until a signal is to end this process; and a few times if it is up.

    Raises the last `RadrmError` of `ask`.
    """
    last_s = time.monotonic() + patience_s
    refused, told = 0, False
    while True:
        try:
            return ask()
        except RadrmError as error:
            if time.monotonic() >= last_s:
                raise
            up = is_up(_PING_S)
            refused += up
            if refused >= _TRIES or _is_to_end(_PAUSE_S):
                raise
            if not up and not told:
                told = True
                say(f"Slurm's controller does not answer, waiting: {error}")


def _is_to_end(within_s: float) -> bool:
    last_s = time.monotonic() + within_s
    while (left_s := last_s - time.monotonic()) > 0:
        if signals.wait(left_s) in signals.ENDING:
            return True
    return False
