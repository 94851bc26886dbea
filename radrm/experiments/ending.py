"""Clean up an experiment that a signal stops.

Theory of operation. Handlers run in the main thread, between any two steps of it. The first
signal raises SystemExit there, so that `finally` blocks end processes and remove folders.
Signals during that are ignored. Between the start of a process and the note of it, signals are
only noted (`signals_later`).
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def orderly_end(say: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Let the first Ctrl-C, TERM or hang-up call `say` and raise SystemExit, and ignore later
    ones, so that everything is cleaned up."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]

    def end(number: int, frame: FrameType | None) -> None:
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        say()
        sys.exit(128 + number)

    for number in caught:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


@contextlib.contextmanager
def signals_later() -> Iterator[None]:
    """Delay signals until the block ends. An exception between the start of a process and the
    note of it would leave that process behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = {number: handler for number, handler in before.items() if callable(handler)}
    for number in caught:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
