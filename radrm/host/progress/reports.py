"""What a datagram says of a job's progress, and what a job has said last.

A datagram is UTF-8 text of at most 512 bytes: lines `key=value`. The keys are `step`, `total`,
`epoch`, `loss`, `work_done` (0..1), `data_wait` (0..1) and `saved` (the step that is saved); the
values are numbers. A launcher of several tasks also says `resized` (a generation that it has
answered) and `use.ROLE.N=CPU_S,MIB[,NETWORK]` for each task, in one or several datagrams. Other
keys are ignored, so that newer senders can say more. A datagram with a mistake is dropped as a
whole: one half of a report would only mislead.

The process that reads the logs of a job with a silent limit says `silent=SECONDS`: for so many real
seconds they have not changed.

A newer value replaces what contradicts it: a step beyond the known total makes the total unknown,
as `total=0` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from radrm.core.records import Instant, Progress, TaskUse
from radrm.errors import plain

MOST_BYTES = 512
"""The longest datagram."""
MOST_TASKS = 256
"""Tasks of one attempt whose use is remembered."""
USE = "use."
_KEYS = frozenset(
    {"step", "total", "epoch", "loss", "work_done", "data_wait", "saved", "resized", "silent"}
)
_NEVER_NEGATIVE = ("step", "total", "epoch", "saved", "resized", "silent")
_STEPS = frozenset({"step", "total"})
_PARTS = ("work_done", "data_wait")
_MOST_CPU_S, _MOST_MIB = 1e12, 1 << 30
_LONGEST_ROLE = 64
_MOST_SHOWN = 24


class BadReport(ValueError):
    """A datagram that is dropped; the message is the reason, in one line."""


def parse(datagram: bytes) -> dict[str, float]:
    """Return the values of the known keys. Raises `BadReport`."""
    if len(datagram) > MOST_BYTES:
        raise BadReport(f"longer than {MOST_BYTES} bytes")
    try:
        lines = datagram.decode().splitlines()
    except UnicodeDecodeError:
        raise BadReport("not UTF-8 text") from None
    found: dict[str, float] = {}
    for line in lines:
        key, equals, text = line.partition("=")
        key = key.strip()
        if not equals and key:
            raise BadReport(f"{_shown(line)} is not KEY=NUMBER")
        if key in _KEYS:
            found[key] = _number(key, text)
    _check(found)
    return found


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise BadReport(f"{key}={_shown(text)} is not a number") from None
    if not isfinite(value):
        raise BadReport(f"{key}={value} is not a finite number")
    return value


def _check(found: Mapping[str, float]) -> None:
    for key in _NEVER_NEGATIVE:
        if found.get(key, 0.0) < 0:
            raise BadReport(f"{key}={found[key]:g} is negative")
    for key in _PARTS:
        if not 0 <= found.get(key, 0.0) <= 1:
            raise BadReport(f"{key}={found[key]:g} is not between 0 and 1")
    if found.get("total") and found.get("step", 0.0) > found["total"]:
        raise BadReport(f"step={found['step']:g} is more than total={found['total']:g}")


def parse_use(datagram: bytes) -> list[TaskUse]:
    """Return what a datagram that `parse` has taken says about tasks. Raises `BadReport`."""
    if USE.encode() not in datagram:
        return []
    found = []
    for line in datagram.decode().splitlines():
        key, _, text = line.partition("=")
        if key.strip().startswith(USE):
            found.append(_task_use(key.strip(), text))
    return found


def _task_use(key: str, text: str) -> TaskUse:
    role, _, number = key.removeprefix(USE).rpartition(".")
    task = int(number) if number.isascii() and number.isdigit() and len(number) < 4 else MOST_TASKS
    if not 0 < len(role) <= _LONGEST_ROLE or task >= MOST_TASKS:
        raise BadReport(f"{_shown(key)} names no task")
    words = text.split(",")
    if len(words) not in (2, 3):
        raise BadReport(f"{_shown(key)} is not CPU_S,MIB or CPU_S,MIB,NETWORK")
    cpu_s, mib, *network = (_number(plain(key), word) for word in words)
    if not 0 <= cpu_s <= _MOST_CPU_S or not 0 <= mib <= _MOST_MIB:
        raise BadReport(f"{_shown(key)}={_shown(text)} is not a use of CPUs and memory")
    if network and not 0 <= network[0] <= 1:
        raise BadReport(f"{_shown(key)}: network {network[0]:g} is not between 0 and 1")
    return TaskUse(role, task, cpu_s, int(mib), network[0] if network else None)


def _shown(text: str) -> str:
    cut = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
    return ascii(cut)


@dataclass(slots=True)
class Latest:
    """The last value of each key that one attempt has reported; None: it did not say."""

    at: Instant | None = None
    """When the last report was read."""
    step_at: Instant | None = None
    """When the last one was read that said how far the job is."""
    step: float | None = None
    total: float | None = None
    epoch: float | None = None
    loss: float | None = None
    work_done: float | None = None
    data_wait: float | None = None
    saved: Progress | None = None
    """The progress that it has saved."""

    def take(self, report: Mapping[str, float], now: Instant) -> None:
        """Note a report, as `parse` returns it."""
        self.at = now
        saved = report.get("saved")
        if saved is not None and "step" not in report and saved > (self.step or 0.0):
            report = {**report, "step": saved}
        self.step = report.get("step", self.step)
        if "total" in report:
            self.total = report["total"] or None
            self.work_done = None if self.total is None else self.work_done
        self.epoch = report.get("epoch", self.epoch)
        self.loss = report.get("loss", self.loss)
        self.data_wait = report.get("data_wait", self.data_wait)
        if self.step is not None and self.total is not None and self.step > self.total:
            if "step" in report:
                self.total = None
            else:
                self.step = None  # the total is new: so are the steps to come
            self.work_done = None
        if "work_done" in report:
            self.work_done = report["work_done"]
        elif "step" in report or "total" in report:
            self.work_done = _fraction(self.step, self.total, self.work_done)
        # A step without a total says nothing of the part that the job has told itself.
        by_steps = self.total is not None or self.work_done is None
        if "work_done" in report or (by_steps and report.keys() & _STEPS):
            self.step_at = now
        if saved is not None:
            self.saved = self._as_of(saved, now)

    def _as_of(self, step: float, now: Instant) -> Progress:
        """Return the progress at a step. Loss and epoch are known only if it is the last one."""
        if step == self.step:
            return self.progress(now)
        total = self.total if self.total is not None and step <= self.total else None
        return Progress(now, step, total, work_done=_fraction(step, total, None))

    def progress(self, now: Instant) -> Progress:
        """Return all that is known, as of the last report."""
        at = self.at or now
        known = self.step, self.total, self.loss, self.work_done, self.epoch, self.data_wait
        return Progress(at, *known, None if self.step_at == at else self.step_at)


def _fraction(step: float | None, total: float | None, known: float | None) -> float | None:
    """Return the part of all steps that is done; `known` if the steps do not tell."""
    return known if step is None or not total else step / total
