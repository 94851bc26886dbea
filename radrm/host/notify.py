"""Tell systemd how the daemon is doing: the protocol of sd_notify(3), without its library.

Theory of operation. systemd gives a service of `Type=notify` the address of a datagram socket. A
datagram holds lines of `NAME=value`. Until `ready`, `alive` asks for more time to start; then it
feeds the watchdog. Only the thread of the loop calls it, so systemd notices a loop that hangs and
restarts the daemon. No call blocks: what cannot be sent now is sent with the next message.

The three variables leave the environment of this process, so no job and no helper inherits them.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
import time
from collections.abc import Callable, MutableMapping

from radrm.errors import plain

log = logging.getLogger("radrm")

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""What systemd sets for a service. It is for one process, so its children must not have it."""
EXTENSION_S = 300.0
"""Seconds of further time that a start asks for, as long as it makes progress."""
LONGEST_S = 10.0
"""Most seconds between two messages. A watchdog gets one in each third of its time."""
_LONGEST_STATUS = 200
_LONGEST_WATCHDOG_USEC = 10**15


class ServiceManager:
    """The socket of systemd; without one, all calls do nothing. Used by one thread."""

    def __init__(
        self,
        environ: MutableMapping[str, str],
        pid: int | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take systemd's variables out of `environ`. `pid` is this process."""
        address, usec, watched = (environ.pop(name, "") for name in VARIABLES)
        watchdog_s = _seconds(usec) if watched in ("", str(pid or os.getpid())) else None
        self._now_s = now_s
        self._watchdog_usec = None if watchdog_s is None else usec
        self._every_s = min(LONGEST_S, math.inf if watchdog_s is None else watchdog_s / 3)
        self._due_s = -math.inf
        self._is_ready = False
        self._said = ""
        self._unsent: dict[str, str] = {}
        self._failed = False
        self._socket: socket.socket | None = None
        if address[:1] in ("/", "@"):
            self._address = f"\0{address[1:]}" if address[0] == "@" else address
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    def begins(self, what: str) -> None:
        """Show what the start does now, and ask for time for it."""
        self._due_s = -math.inf
        self._say(what)
        self.alive()

    def ready(self) -> None:
        """Say that the daemon serves. From now on `alive` feeds the watchdog."""
        self._is_ready = True
        self._unsent["READY"] = "1"
        if self._watchdog_usec is not None:
            self._unsent["WATCHDOG_USEC"] = self._watchdog_usec  # `reloading` changes it
        self._due_s = -math.inf
        self.alive()

    def reloading(self) -> None:
        """Say that this process starts the daemon anew; `ready` of the new one ends it. Until then
        the watchdog has the time of a start."""
        usec = str(time.monotonic_ns() // 1000)
        self._unsent |= {"RELOADING": "1", "MONOTONIC_USEC": usec}
        if self._watchdog_usec is not None:
            self._unsent["WATCHDOG_USEC"] = str(int(EXTENSION_S * 1e6))
        self._say("starts anew with its configuration")
        self._send()

    def alive(self, status: Callable[[], str] | None = None) -> None:
        """Say that the loop's thread makes progress. Sends nothing before the next message is
        due, so it may be called often. `status` gives the line that `systemctl` shows."""
        now_s = self._now_s()
        if self._socket is None or now_s < self._due_s:
            return
        self._due_s = now_s + self._every_s
        if status is not None:
            self._say(status())
        if not self._is_ready:
            self._unsent["EXTEND_TIMEOUT_USEC"] = str(int(EXTENSION_S * 1e6))
        else:
            self._unsent.pop("EXTEND_TIMEOUT_USEC", None)
            if self._watchdog_usec is not None:
                self._unsent["WATCHDOG"] = "1"
        self._send()

    def stopping(self) -> None:
        """Say that the daemon ends. Nothing else is said after that."""
        if self._socket is None:
            return
        self._unsent = {"STOPPING": "1"}
        self._say("ends; running jobs run on")
        self._send()
        self._socket.close()
        self._socket = None

    def wait_s(self) -> float:
        """Real seconds until the next message is due; infinite without systemd."""
        if self._socket is None:
            return math.inf
        return max(0.0, self._due_s - self._now_s())

    def _say(self, status: str) -> None:
        status = plain(status)[:_LONGEST_STATUS]
        if status != self._said:
            self._said = self._unsent["STATUS"] = status

    def _send(self) -> None:
        """Send what waits. It waits on if systemd does not take it now."""
        if self._socket is None or not self._unsent:
            return
        text = "\n".join(f"{name}={value}" for name, value in self._unsent.items())
        try:
            self._socket.sendto(text.encode("utf-8", "backslashreplace"), self._address)
        except OSError as error:
            if not self._failed and error.errno != errno.EAGAIN:
                self._failed = True
                log.warning("systemd cannot be told how radrm is doing: %s", error.strerror)
            return
        self._unsent.clear()


def _seconds(usec: str) -> float | None:
    """The time of the watchdog; None where there is none, or what is said is no time."""
    if not (usec.isascii() and usec.isdecimal()) or len(usec) > len(str(_LONGEST_WATCHDOG_USEC)):
        return None
    return int(usec) / 1e6 or None
