"""Starts a look's process, reads its report, limits its time and ends it.

Theory of operation: the process (`host/processes/errand.py`) runs as the folder's owner, who may
change what it prints. So its report is checked, and freed of control characters. If the daemon is
killed, the look ends itself at its time limit, and the next look continues its claims.
"""

from __future__ import annotations

import msgspec

from radrm.errors import plain
from radrm.host.processes.errand import GRACE_S as _GRACE_S
from radrm.host.processes.errand import Errand, remove_left_groups
from radrm.host.watched import start_look
from radrm.host.watched.start_look import LIMIT_S, Wanted
from radrm.host.watched.taking import MOST_FILES, Report

MAX_REPORT = 2 << 20
_MAX_TEXT = 500
_GROUP = "radrm-look-"


class _Shape(msgspec.Struct):
    """The fields of a valid report, and their types."""

    taken: list[tuple[str, str, str]]
    refused: list[tuple[str, str]]
    more: bool = False
    unsettled: int = 0
    error: str | None = None
    notes: list[str] = []
    logged_in: bool = False


class Running:
    """One look that runs. Raises `OSError` if its process cannot be started."""

    def __init__(self, wanted: Wanted) -> None:
        self._folder = wanted.folder
        self._errand = Errand(
            start_look.__file__, wanted.as_dict(), _GROUP, LIMIT_S, MAX_REPORT, _GRACE_S
        )

    @property
    def until(self) -> float:
        """The time of the monotonic clock at which it is ended."""
        return self._errand.until

    def fileno(self) -> int:
        """The descriptor to poll: it is readable when `ended` should be called."""
        return self._errand.fileno()

    def ended(self) -> bool:
        """Read what has arrived. True at the end of the output, or when its time is over."""
        return self._errand.ended()

    def close(self) -> Report:
        """End its remaining processes and return its report."""
        late = self._errand.late
        report = _checked(self._errand.output)
        if report is None:
            why = f"took longer than {LIMIT_S} s" if late else "ended without a report"
            report = Report([], [], error=f"{self._folder}: the look into it {why}")
        # Nothing uses the processes that a login leaves behind (an agent, for example).
        self._errand.end(thorough=report.logged_in or report.error is not None)
        return report


def remove_leftover_groups() -> None:
    """Remove the control groups of looks whose daemon was killed."""
    remove_left_groups(_GROUP)


def _checked(output: bytes) -> Report | None:
    """The report in the output, with short and plain texts; None if there is none."""
    if len(output) > MAX_REPORT:
        return None
    try:
        shape = msgspec.json.decode(output, type=_Shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return Report(
        taken=[[_short(word) for word in each] for each in shape.taken[: 2 * MOST_FILES]],
        refused=[[_short(word) for word in each] for each in shape.refused[: 2 * MOST_FILES]],
        more=shape.more,
        unsettled=shape.unsettled,
        error=None if shape.error is None else _short(shape.error),
        notes=[_short(note) for note in shape.notes[: 2 * MOST_FILES]],
        logged_in=shape.logged_in,
    )


def _short(text: str) -> str:
    return plain(text)[:_MAX_TEXT]
