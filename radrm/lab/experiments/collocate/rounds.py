"""Run copies at once and watch them to their end, with their traffic between host and GPU.

The thesis' figure 4.4 counts bytes received over PCIe (DCGM field `pcie_rx_bytes`). A sample of
NVML is a mean over 20 ms; the round's figure is the mean of all samples. A sample blocks for
these 20 ms, so the measurement takes it with a connection of its own, not the daemon. MIG
instances have no such figure.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import Struct, field

from radrm.client.tail import Tail
from radrm.client.text import FINAL
from radrm.errors import Refused, plain
from radrm.host.gpus.nvml.library import load
from radrm.lab.experiments.collocate.numbers import CopyRun, Round, Steps
from radrm.lab.experiments.collocate.server import BenchServer, log_of
from radrm.lab.experiments.demo.numbers import Meter

_TX, _RX = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES
_KB = 1000.0
_MOST_KB_S = 1e9
"""More than any link can carry: such a value is an error of the driver."""


class Link:
    """The PCIe link of one GPU. After a failure, `sample` always returns None."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._gpu: Any = None
        if uuid.startswith("GPU-"):
            with contextlib.suppress(Exception):  # without NVML there is no figure
                pynvml = load()
                pynvml.nvmlInit()
                self._nvml = pynvml
                self._gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def sample(self) -> tuple[float, float] | None:
        """Megabytes (10^6) per second, received by the GPU and sent by it."""
        if self._gpu is None:
            return None
        try:
            found = [self._nvml.nvmlDeviceGetPcieThroughput(self._gpu, way) for way in (_RX, _TX)]
        except Exception:  # the GPU does not offer it, or the driver fails
            self._gpu = None
            return None
        if not all(0 <= kb_s < _MOST_KB_S for kb_s in found):
            return None
        received, sent = (kb_s * _KB / 1e6 for kb_s in found)
        return received, sent

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
        self._nvml = self._gpu = None


def mean_traffic(
    samples: Sequence[tuple[float, float]],
) -> tuple[float, float] | tuple[None, None]:
    """The mean of each way; None without a sample."""
    if not samples:
        return None, None
    received, sent = map(fmean, zip(*samples, strict=True))
    return received, sent


Document = dict[str, Any]

_FREE = ("idle", "others")
"""States of a device without jobs. What other processes use of it is measured apart."""
_PAUSE_S, _SHORTEST_PAUSE_S = 0.2, 0.03
_PATIENCE_S = 60.0
"""Real seconds in which the GPU must become idle, and in which all copies must start."""
_START_UP_S = 300.0
"""Seconds of the daemon's clock after which a copy without a step counts as at work. Data sets
and compilers take minutes to load, and the pattern may match no line."""
_LAST_LINES = 3


class Work(Struct, frozen=True):
    """The measured command, the pattern of its progress lines, and its time limit.

    `others`: further programs, each of which runs beside it in place of copies. `limit_s` (on the
    daemon's clock) counts from the moment when every copy has reported a step. None: the copies
    run to their end.
    """

    command: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    limit_s: float | None = None
    others: tuple[tuple[str, ...], ...] = ()

    @property
    def programs(self) -> tuple[tuple[str, ...], ...]:
        return (self.command, *self.others)


class Bench:
    """Runs rounds on one GPU, or on MIG instances of one profile, of a server without other jobs.
    `link` samples the GPU's PCIe traffic."""

    def __init__(
        self,
        server: BenchServer,
        devices: Sequence[str],
        work: Work,
        link: Link,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._server = server
        self._devices = tuple(devices)
        self._link = link
        self._work = work
        self._pause = pause
        self._scale = float(server.ask("ping")["time_scale"])
        self._logs = server.folder / "logs"
        self._logs.mkdir()

    def measure(self, mode: str, copies: int) -> Round:
        """Run this number of copies at once and wait for all of them.

        Out of GPU memory is a result. Raises Refused for any other failure of a copy, with the
        last lines that it printed.
        """
        before_mib = self._before_mib()
        job = self._server.submit_copies(copies, mode, self._work.command, self._logs)
        logs = [log_of(self._logs, mode, str(copies), number) for number in range(copies)]
        return self._follow(mode, [job], logs, before_mib)

    def together(self, mode: str, programs: Sequence[int]) -> Round:
        """Run these of the work's programs at once, by their places, and wait for all of them.

        The runs of the round are in this order. Otherwise as `measure`.
        """
        before_mib = self._before_mib()
        name = "programs-" + "-".join(map(str, programs))
        logs = [log_of(self._logs, mode, name, number) for number in range(len(programs))]
        commands = [self._work.programs[program] for program in programs]
        jobs = self._server.submit_programs(mode, commands, logs)
        return self._follow(mode, jobs, logs, before_mib, programs)

    def _follow(
        self,
        mode: str,
        jobs: Sequence[str],
        logs: Sequence[str],
        before_mib: int,
        programs: Sequence[int] = (),
    ) -> Round:
        """Watch jobs, or the elements of one, to their end. `programs`: what they are."""
        names = [f"program {1 + program}" for program in programs]
        names = names or [f"copy {number} of {len(logs)}" for number in range(len(logs))]
        watch = _Watch(len(logs), logs, self._work.pattern, jobs)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            documents = self._server.ask("status", jobs=jobs)
            now_s = float(self._server.ask("ping")["now"])
            watch.look(documents, self._find(), now_s)
            if watch.over:
                break
            if watch.all_run and (sample := self._link.sample()) is not None:
                watch.traffic.append(sample)
            if not watch.all_began and time.monotonic() > deadline:
                waits = [d["started_at"] is None for d in watch.documents].index(True)
                why = watch.documents[waits]["reason"] or watch.documents[waits]["state"]
                self._server.ask("cancel", jobs=jobs)
                raise Refused(f"{names[waits]} did not start ({mode}): {plain(why)}")
            limit_s = self._work.limit_s
            if limit_s is not None and watch.cut_s is None and watch.at_work_for(now_s) >= limit_s:
                watch.cut_s = now_s
                self._server.ask("cancel", jobs=jobs)
            self._pause(max(_SHORTEST_PAUSE_S, _PAUSE_S / self._scale))
        measured = watch.round(mode, before_mib)
        _refuse_failed(measured, logs, names)
        return measured

    def _before_mib(self) -> int:
        """Wait until the devices are idle. Returns what is used of them."""
        return sum(device["used_mib"] for device in self._idle())

    def _idle(self) -> list[Document]:
        """Wait until the devices are idle and were read. Returns their documents."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            devices = self._find()
            busy = [d for d in devices if d["state"] not in _FREE or d["used_mib"] is None]
            if not busy:
                return devices
            if time.monotonic() > deadline:
                raise Refused(
                    f"GPU {busy[0]['index']} does not become idle: it is {busy[0]['state']}"
                    f" {plain(busy[0]['reason'] or '')}".rstrip()
                )
            self._pause(_SHORTEST_PAUSE_S)

    def _find(self) -> list[Document]:
        found = {d["uuid"]: d for d in self._server.ask("gpus")}
        gone = next((uuid for uuid in self._devices if uuid not in found), None)
        if gone is not None:
            raise Refused(f"the GPU {gone} is gone; look at nvidia-smi -L")
        return [found[uuid] for uuid in self._devices]


def _refuse_failed(measured: Round, logs: Sequence[str], names: Sequence[str]) -> None:
    for run, log, name in zip(measured.runs, logs, names, strict=True):
        fine = ("completed", "oom", "cancelled") if measured.cut else ("completed", "oom")
        if run.outcome not in fine:
            printed = last_lines(Path(log))
            raise Refused(
                f"{name} ({measured.mode}) ended as {run.outcome}; "
                f"its last output: {printed or 'none'}"
            )


class _Watch(Struct):
    """The measurements of one round so far."""

    copies: int
    logs: Sequence[str]
    pattern: re.Pattern[str] | None
    jobs: Sequence[str] = ()
    """The jobs, in order; one array with all copies, or one job for each program."""
    cut_s: float | None = None
    """When the copies were cancelled, because the time limit was reached."""
    documents: list[Document] = field(default_factory=list)
    traffic: list[tuple[float, float]] = field(default_factory=list)
    """Samples of the link."""
    _whole: Meter = field(default_factory=Meter)
    _together: Meter = field(default_factory=Meter)
    _used_mib: int | None = None
    _source: str | None = None
    _steps: list[Steps] = field(default_factory=list)
    _tails: list[Tail] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.pattern is not None:
            self._steps = [Steps(self.pattern) for _ in range(self.copies)]
            self._tails = [Tail(log, os.geteuid(), lambda _: None) for log in self.logs]

    def look(
        self, documents: Sequence[Document], devices: Sequence[Document], now_s: float
    ) -> None:
        self.documents = sorted(documents, key=self._place)
        for tail, steps in zip(self._tails, self._steps, strict=True):
            tail.copy_new(partial(steps.feed, now_s=now_s))
        began = any(d["started_at"] is not None for d in self.documents)
        if began and self.cut_s is None:
            self._whole.add(now_s, devices)
        if self.all_run:
            taken = [device for device in devices if device["jobs"]]
            self._together.add(now_s, taken)
            for device in taken:
                self._source = device["smact_source"] or self._source
        used = [device["used_mib"] for device in devices]
        if None not in used:
            self._used_mib = max(self._used_mib or 0, sum(used))
        if self.over:
            for tail in self._tails:
                tail.close()

    def _place(self, document: Document) -> tuple[int, int]:
        job = document.get("array_id", document["id"])
        return self.jobs.index(str(job)), document.get("array_index", 0)

    @property
    def over(self) -> bool:
        return all(d["state"] in FINAL for d in self.documents)

    @property
    def all_began(self) -> bool:
        return all(d["started_at"] is not None for d in self.documents)

    @property
    def all_run(self) -> bool:
        """Whether all copies run, and none was cancelled."""
        return self.cut_s is None and all(d["state"] == "RUNNING" for d in self.documents)

    def at_work_for(self, now_s: float) -> float:
        """Seconds since all copies are at work, their start-up left out; below 0 before that."""
        if not all(d["state"] == "RUNNING" for d in self.documents):
            return -1.0
        began_s = [float(d["started_at"]) + _START_UP_S for d in self.documents]
        for number, steps in enumerate(self._steps):
            if steps.points:
                began_s[number] = min(began_s[number], steps.points[0].at_s)
        return now_s - max(began_s)

    def round(self, mode: str, before_mib: int | None) -> Round:
        used = self._used_mib
        received, sent = mean_traffic(self.traffic)
        grown = None if used is None or before_mib is None else max(0, used - before_mib)
        return Round(
            mode=mode,
            runs=tuple(self._run(i, d) for i, d in enumerate(self.documents)),
            cut=self.cut_s is not None,
            smact=self._together.activity,
            smact_source=self._source,
            used_mib=grown,
            energy_j=self._whole.energy_j or None,
            pcie_rx_mb_s=received,
            pcie_tx_mb_s=sent,
        )

    def _run(self, number: int, document: Document) -> CopyRun:
        ended_s = float(document["ended_at"])
        if self.cut_s is not None:
            ended_s = min(ended_s, self.cut_s)
        return CopyRun(
            started_s=float(document["started_at"] or ended_s),
            ended_s=ended_s,
            outcome=document["outcome"] or document["state"].lower(),
            peak_mib=document["peak_mib"],
            points=tuple(self._steps[number].points) if self._steps else (),
        )


def last_lines(log: Path) -> str:
    """The last lines that a copy printed, as one line."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return plain(" | ".join(line.strip() for line in lines[-_LAST_LINES:] if line.strip()))
