"""What other processes see of this one: its name, its command line, and its environment.

Theory of operation. The kernel shows in `/proc/PID/cmdline` and `/proc/PID/environ` two ranges of
the process's own memory, as `execve` has filled them. A fork that becomes another program without
`execve` writes its own words there. They must not be longer than what was there, so the process
that forks is started with an environment that only takes up room (`ROOM`). C library and Python
have copies of all that they still need from there; `clear_environment` takes the rest from them.
"""

from __future__ import annotations

import ctypes
import os

from radrm.host.processes.calls import library
from radrm.host.processes.procfs import start_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ROOM = {"RADRM_ROOM": " " * 500}
"""The environment of a process that others are forked from: bytes for theirs."""
_PR_SET_NAME = 15
_FIELDS = slice(45, 49)
"""Beginning and end of the arguments, and of the environment, in what follows the name in
`/proc/PID/stat` (proc(5): fields 48 to 51)."""


class Shown:
    """The two ranges of this process, which its forks have at the same places. Raises `OSError`
    where they cannot be found, or are not shown as they are written."""

    def __init__(self) -> None:
        fields = start_of("/proc/self/stat").rpartition(b")")[2].split()
        places = [int(word) for word in fields[_FIELDS]]
        if len(places) < 4 or not 0 < places[0] < places[1] <= places[2] < places[3]:
            raise OSError("the kernel does not tell where arguments and environment are")
        self._arguments, self._environment = places[:2], places[2:]
        os.environ.clear()  # the C library's pointers lead there
        mark = {"RADRM_SHOWN": str(os.getpid())}
        self.show("", mark)
        if not start_of("/proc/self/environ").startswith(_text(mark)):
            raise OSError("the environment cannot be written")

    def show(self, line: str, environment: Mapping[str, str]) -> None:
        """Show this command line, as far as there is room, and this environment.

        Raises `ValueError` for an environment that is too long: nothing is shown then.
        """
        _fill(self._environment, _text(environment))
        begin, end = self._arguments
        words = os.fsencode(line)[: end - begin - 2]
        # A last byte that is not NUL says that the line ends at the first NUL (proc(5)).
        _fill(self._arguments, words.ljust(end - begin - 1, b"\0") + b"\1")

    def rename(self, name: str) -> None:
        """Set the short name of this process: at most 15 characters."""
        text = ctypes.create_string_buffer(name.encode())
        library().prctl(_PR_SET_NAME, ctypes.addressof(text), 0, 0, 0)


def _text(environment: Mapping[str, str]) -> bytes:
    return b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())


def _fill(place: list[int], data: bytes) -> None:
    begin, end = place
    if len(data) > end - begin:
        raise ValueError("there is no room for the environment")
    ctypes.memmove(begin, data.ljust(end - begin, b"\0"), end - begin)
