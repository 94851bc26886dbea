"""Run a few steps of a job on each free kind and number of GPUs: `radrm profile`.

ANDREAS does so on a node of its own (Filippini et al., arXiv 2105.05080, section III). Here a
*probe* is an ordinary job of the caller, alone on its GPUs, behind all other jobs. It takes only
GPUs that are idle and that no job waits for, and is cancelled when it has done its steps or when
another job waits for its kind of GPU. The daemon learns from a probe as from any run that reports
its steps (`radrm/estimators/learning/profile.py`), so nothing is stored here.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from radrm.client.connection import Client, find_spool
from radrm.client.text import FINAL
from radrm.core.constraints.kinds import is_name_of
from radrm.errors import RadrmError, Refused, UsageError
from radrm.estimators.learning.profile import LEAST_S
from radrm.host.storage.spool import Spool
from radrm.host.storage.submission import envelope_of, here, load
from radrm.jobfile.options import MOMENTS, RawOptions
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.lab.documents import Profiled

Document = dict[str, Any]
START_S = 30.0
"""How long (real seconds) a probe may wait for GPUs that were idle a moment ago."""
_PAUSE_S = 0.2
_UNFIT = ("array", "after", "hold", "role")
"""Options with which a probe would not be one job that starts now."""
_TAIL = 4096
_ODD, _LONGEST_TYPE = re.compile(r"[^A-Za-z0-9 ._-]"), 64
"""`--gpu-type` takes other characters than these for ends of words."""
_FIRST = 100
"""The first waiting jobs that are looked at: to show all of a long queue takes long."""


class Point(Struct, frozen=True):
    """A report of a probe: when, the step, the number of all steps, the part of the work done."""

    at_s: float
    step: float | None = None
    total: float | None = None
    work_done: float | None = None


class Wishes(Struct, frozen=True):
    """What to probe: `steps` of each probe, at most `limit_s`; the job's `total` steps if it does
    not report them; `pattern` reads steps from the log."""

    kinds: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    steps: int = 20
    limit_s: float = 300.0
    total: float | None = None
    pattern: str | None = None


def figures(
    kind: str, gpus: int, points: Sequence[Point], total: float | None, why: str | None
) -> Profiled:
    """Return what the reports of a probe show. `why`: why it ended early, if it did."""
    step_s = whole_s = None
    if len(points) > 1:
        first, last = points[0], points[-1]
        took_s = last.at_s - first.at_s
        total = last.total if last.total is not None else total
        if took_s >= LEAST_S and (steps := (last.step or 0.0) - (first.step or 0.0)) > 0:
            step_s = took_s / steps
            whole_s = None if total is None else step_s * total
        done = (last.work_done or 0.0) - (first.work_done or 0.0)
        if whole_s is None and took_s >= LEAST_S and done > 0:
            whole_s = took_s / done
    if why is None and step_s is None and whole_s is None:
        why = (
            "it reported no steps: report them (radrm help progress-reports), or add "
            "--progress-pattern"
            if len(points) < 2
            else "too few steps in too short a time: probe more with --probe-steps"
        )
    if why is None and whole_s is None:
        why = "its total of steps is not known: report it, or add --steps"
    return Profiled(kind=kind, gpus=gpus, step_s=step_s, total=total, whole_s=whole_s, why=why)


def has_enough(points: Sequence[Point], steps: int) -> bool:
    """Return whether a probe has done its steps; without steps, made three reports."""
    if len(points) < 2 or points[-1].at_s - points[0].at_s < LEAST_S:
        return False
    first, last = points[0].step, points[-1].step
    return len(points) > 2 if first is None or last is None else last - first >= steps


def configurations(
    devices: Sequence[Document], kinds: Sequence[str], numbers: Sequence[int]
) -> list[tuple[str, int]]:
    """Return the kinds and numbers of GPUs to probe: by default 1, 2, 4, ... of each kind.

    Raises `UsageError` for a kind or a number that this server does not have.
    """
    present: dict[str, int] = {}
    for each in devices:
        if each["kind"] == "gpu":  # a job cannot span MIG instances, and a share is no whole GPU
            present[each["name"]] = present.get(each["name"], 0) + 1
    for wanted in kinds:
        if not any(is_name_of(name, wanted) for name in present):
            raise UsageError(f"--gpu-type {wanted}: there is {', '.join(present) or 'no GPU'} here")
    chosen = {
        name: count
        for name, count in present.items()
        if not kinds or any(is_name_of(name, wanted) for wanted in kinds)
    }
    most = max(chosen.values(), default=0)
    if numbers and min(numbers) > most:
        raise UsageError(f"--gpus {min(numbers)}: there are {most} GPUs of one kind here")
    doubling = tuple(2**power for power in range(most.bit_length()))
    return [(k, n) for k, has in chosen.items() for n in (numbers or doubling) if n <= has]


def unavailable(
    devices: Sequence[Document], waiting: Sequence[Document], kind: str, gpus: int
) -> str | None:
    """Return why so many GPUs of a kind cannot be probed now; None if they can."""
    job = next((job for job in waiting if _wants(job, kind)), None)
    if job is not None:
        return f"job {job['label']} waits for GPUs; try again when none waits"
    free = [
        each
        for each in devices
        if each["name"] == kind
        and each["state"] == "idle"
        and each["reason"] is None
        and not each["reservations"]
    ]
    if len(free) < gpus:
        return f"{len(free)} of {gpus} are free; try again later"
    return None


def _wants(job: Document, kind: str) -> bool:
    types = job.get("gpu_types")
    return (
        job["position"] is not None
        and bool(job["gpus"])
        and not (job.get("held") or job.get("after"))
        and (not types or any(is_name_of(kind, each) for each in types))
    )


class Profiler:
    """Probes one job file through a daemon, one configuration after another.

    `pause` waits for so many seconds. Raises `RadrmError` for a job file that
    cannot be probed, and without a daemon.
    """

    def __init__(
        self,
        client: Client,
        file: str,
        wishes: Wishes,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._client, self._file, self._wishes, self._pause = client, file, wishes, pause
        self._names: dict[str, str] = {}
        self._data = load(file)
        pattern = {} if wishes.pattern is None else {"progress-pattern": wishes.pattern}
        options = self._options = read_job_file(self._data, file, dict(pattern)).options
        for name in _UNFIT:
            if getattr(options, name):
                raise Refused(f"{file}: a probe takes no --{name}; profile a copy without it")
        if options.least_gpus == 0:
            raise Refused(f"{file}: it asks for no GPU (--gpus=0), so there is nothing to profile")
        self._paths, up = find_spool(client)
        if not up:
            raise Refused("no daemon answers, and probes are its jobs; start radrm daemon")

    def wanted(self) -> list[tuple[str, int]]:
        """Return the kinds and numbers of GPUs to probe."""
        devices = self._client.ask("gpus")
        self._names = {device["uuid"]: device["name"] for device in devices}
        return configurations(devices, self._wishes.kinds, self._wishes.numbers)

    def probe(self, kind: str, gpus: int) -> Profiled:
        """Probe one kind and number of GPUs."""
        why = self._why_not(kind, gpus, None)
        if why is not None:
            return figures(kind, gpus, (), None, why)
        with tempfile.TemporaryDirectory(prefix="radrm-profile-") as folder:
            log = Path(folder) / "log"
            try:
                job = self._submit(kind, gpus, log)
            except RadrmError as error:
                return figures(kind, gpus, (), None, str(error))
            with self._ending(job):
                points, why = self._watch(job, kind, gpus, log)
        return figures(kind, gpus, points, self._wishes.total, why)

    def _why_not(self, kind: str, gpus: int, own: int | None) -> str | None:
        page = self._client.ask("page", state="pending,recovering", limit=_FIRST)
        waiting = [job for job in page["jobs"] if job["id"] != own]
        devices = self._client.ask("gpus") if own is None else ()
        return unavailable(devices, waiting, kind, gpus if own is None else 0)

    def _submit(self, kind: str, gpus: int, log: Path) -> int:
        raw: RawOptions = {
            "name": f"profile-{Path(self._file).stem}"[:100],
            "gpus": str(gpus),
            "gpu-type": _ODD.sub(" ", kind)[:_LONGEST_TYPE].strip(),
            "collocation": "exclusive",
            "priority": "-1000",
            "time": f"{self._wishes.limit_s:.0f}s",
            "retries": "0",
            "checkpoint": "none",
            "output": str(log),
            "error": str(log),
        }
        if self._options.of_tasks:  # in a range they are per worker; a probe has a fixed size
            if self._options.cpus is not None:
                raw["cpus"] = f"{self._options.cpus * gpus:g}"
            if self._options.memory_mib is not None:
                raw["memory"] = str(self._options.memory_mib)
        if self._wishes.pattern is not None:
            raw["progress-pattern"] = self._wishes.pattern
        job_file = self._dated(read_job_file(self._data, self._file, raw))
        envelope = envelope_of(job_file, self._file, self._data, raw)
        Spool(self._paths.spool).put([envelope])
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            (found,) = self._client.ask("intake", jobs=[envelope.ticket])
            if found is not None:
                return int(found["id"])
            self._pause(_PAUSE_S)
        raise Refused(f"the daemon has not taken its job within {START_S:g} s; see radrm status")

    def _dated(self, job_file: JobFile) -> JobFile:
        if not MOMENTS & job_file.raw.keys():
            return job_file
        return job_file.dated(here(self._client.ask("ping")["now"]), self._file)

    @contextlib.contextmanager
    def _ending(self, job: int) -> Iterator[None]:
        """Leave no probe behind, also after Ctrl-C."""
        try:
            yield
        finally:
            if self._document(job)["state"] not in FINAL:
                self._client.ask("cancel", jobs=[str(job)])
            while self._document(job)["state"] not in FINAL:
                self._pause(_PAUSE_S)

    def _document(self, job: int) -> Document:
        (found,) = self._client.ask("status", jobs=[str(job)])
        return dict(found)

    def _other_kind(self, job: Document, kind: str) -> str | None:
        """Return the name of a GPU of another kind that a probe has; None without one."""
        names = (self._names.get(uuid) for uuid in job["devices"])
        return next((name for name in names if name not in (None, kind)), None)

    def _watch(self, job: int, kind: str, gpus: int, log: Path) -> tuple[list[Point], str | None]:
        """Return a probe's reports, and why it ended before its steps; None if it did not."""
        points: list[Point] = []
        until_s = time.monotonic() + START_S
        while True:
            found = self._document(job)
            _add(points, found.get("progress"), found["started_at"])
            if found["state"] in FINAL:
                return points, None if found["state"] == "COMPLETED" else _failure(found, log)
            if found["started_at"] is not None and (other := self._other_kind(found, kind)):
                return [], f"it started on {other}, whose name fits, too; drain those and try again"
            if has_enough(points, self._wishes.steps):
                return points, None
            if found["outcome"] == "oom" or found["oom_count"]:
                return points, "it ran out of GPU memory there"
            if found["started_at"] is None and time.monotonic() > until_s:
                return points, f"it did not start within {START_S:g} s: {found['reason']}"
            why = self._why_not(kind, gpus, job)
            if why is not None:
                return points, f"it was stopped: {why}"
            self._pause(_PAUSE_S)


def _add(points: list[Point], progress: Document | None, started_s: float | None) -> None:
    """Add a report of this attempt, once."""
    if progress is None or started_s is None or progress["step_at"] < started_s:
        return
    if not points or progress["step_at"] > points[-1].at_s:
        keys = ("step_at", "step", "total", "work_done")
        points.append(Point(*(progress[key] for key in keys)))


def _failure(job: Document, log: Path) -> str | None:
    """Return why a probe ended without its steps; None at its time limit, which is no failure."""
    if job["state"] == "TIMEOUT":
        return None
    why = str(job["reason"] or job["outcome"] or job["state"].lower())
    last = _last_line(log)
    return f"{why}: {last}" if last else why


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, os.path.getsize(log) - _TAIL))
        lines = file.read(_TAIL).decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:200] if lines else ""
    return ""
