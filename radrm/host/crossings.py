"""Fault points: names for the moments that a `kill -9` must be survived at.

Theory of operation. Code that changes the world calls `crossed` before and after each step. In
production nothing watches, and a call costs a comparison. The crash matrix
(`proofs/crash/`) has its processes watch, and kills them at one point after the other.
Neither the environment nor a file can install a watcher. The runner imports this file.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_watcher: Callable[[str, str], None] | None = None


def crossed(point: str, what: str = "") -> None:
    """Tell the watcher, if there is one, that this process is at `point`, a literal.

    `what` tells apart the files or actions that pass the same point.
    """
    if _watcher is not None:
        _watcher(point, what)


def watch(watcher: Callable[[str, str], None]) -> None:
    """Have each crossing of this process call `watcher`, in the thread that crosses."""
    global _watcher
    _watcher = watcher
