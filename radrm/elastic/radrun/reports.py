"""What the tasks have used, and how far the job is: measured, and sent to the daemon."""

from __future__ import annotations

import contextlib
import math
import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from radrm.elastic.radrun.workers import proc
from radrm.elastic.radrun.workers.process import Worker
from radrm.host.processes.procfs import start_of
from radrm.report import keep_last

# ------------------------------------------------------------------
# What each task has used: the CPU time and memory of its worker's processes, from /proc.
#
# The CPU time of a task goes on counting when its worker is replaced. Memory is the sum of what the
# processes hold; pages that they share count for each. Both are looked up rarely, because a look
# reads every process of the server.


_MIB = 1 << 20
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Use(NamedTuple):
    """What one task has used: CPU seconds since the attempt's first worker of it, and memory."""

    cpu_s: float
    memory_mib: int


class Usage:
    """The use of all tasks, by role and number."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, int], float] = {}
        """CPU seconds of the workers that a task had before."""
        self._now: dict[tuple[str, int], tuple[int, float]] = {}
        """The worker of a task, by its pid, and its CPU seconds at the last look."""

    def look(self, workers: Mapping[tuple[str, int], Worker]) -> dict[tuple[str, int], Use]:
        """Return what the tasks of these workers have used."""
        everything = proc.census()
        found = {}
        for key, worker in workers.items():
            # The pid of one that has ended may be another process's by now.
            living = set() if worker.ended else {worker.pid}
            tree = [_use_of(pid) for pid in proc.tree(everything, living)]
            cpu_s = sum(cpu_s for cpu_s, _ in tree)
            pid, most_s = self._now.get(key, (worker.pid, 0.0))
            if pid != worker.pid:
                self._before[key] = self._before.get(key, 0.0) + most_s
                most_s = 0.0
            # What an orphan used goes with it; a sum must not fall.
            cpu_s = max(cpu_s, most_s)
            self._now[key] = (worker.pid, cpu_s)
            memory = sum(held for _, held in tree)
            found[key] = Use(self._before.get(key, 0.0) + cpu_s, memory // _MIB)
        return found


def _use_of(pid: int) -> tuple[float, int]:
    """Return the CPU seconds of a process, with children that it waited for, and bytes it holds."""
    fields = start_of(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 22:
        return 0.0, 0  # it has just ended
    return sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE


# ------------------------------------------------------------------
# The progress of a job and the use of its tasks, to radrm's daemon, as datagrams.
#
# They go to the socket `$RADRM_PROGRESS`, at most two a second but for answers to a resize, each at
# most 512 bytes of `key=value` lines. What comes in between is merged. Nothing waits, and what
# cannot be sent is dropped: the next one says more.


MOST_BYTES = 512
EVERY_S = 0.5
USE_EVERY_S = 2.0


class Reports:
    """Sends reports to `address`; without one it does nothing."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._unsent: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._missed = False
        self._sent_s = -math.inf
        self._data_wait: list[float] = []

    def progress(
        self,
        step: float | None,
        total: float | None,
        loss: float | None,
        data_wait: float | None,
    ) -> None:
        """Note how far the job is; `data_wait` is the part of a step that waits for data, 0..1."""
        values = {"step": step, "total": total, "loss": loss}
        self._unsent |= {
            key: float(value)
            for key, value in values.items()
            if value is not None and math.isfinite(value)
        }
        if data_wait is not None and 0.0 <= data_wait <= 1.0:
            self._data_wait.append(data_wait)
            del self._data_wait[:-1000]

    def send_due(self, now_s: float) -> None:
        """Send what is unsent, if the last datagram was long enough ago."""
        if not self._unsent or now_s - self._sent_s < EVERY_S:
            return
        if self._unsent.get("total", math.inf) < self._unsent.get("step", 0.0):
            del self._unsent["total"]  # the whole datagram would be dropped
        if self._data_wait:
            self._unsent["data_wait"] = round(sum(self._data_wait) / len(self._data_wait), 4)
        self._sent_s = now_s
        sent = self._send("".join(f"{key}={value!r}\n" for key, value in self._unsent.items()))
        self._last |= self._unsent
        self._missed = not sent
        self._unsent, self._data_wait = {}, []

    def resized(self, number: int) -> None:
        """Tell that the resize to placement `number` is answered in the folder."""
        self._send(f"resized={number}\n")

    def use(self, tasks: Mapping[tuple[str, int], Use]) -> None:
        """Tell what each task has used so far."""
        text = ""
        for (role, number), use in tasks.items():
            line = f"use.{role}.{number}={use.cpu_s:.2f},{use.memory_mib}\n"
            if len(text) + len(line) > MOST_BYTES:
                self._send(text)
                text = ""
            text += line
        if text:
            self._send(text)

    def close(self) -> None:
        """Send what is unsent. What no daemon takes stays in a file, for the next one."""
        self.send_due(math.inf)
        folder = os.environ.get("RADRM_CHECKPOINT_DIR")
        if self._missed and self._address is not None and folder:
            keep_last(folder, self._last)
        if self._socket is not None:
            self._socket.close()

    def _send(self, text: str) -> bool:
        """Return whether a daemon takes it."""
        if self._address is None:
            return False
        with contextlib.suppress(OSError, ValueError):  # no daemon, or its queue is full
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            self._socket.sendto(text.encode(), self._address)
            return True
        return False
