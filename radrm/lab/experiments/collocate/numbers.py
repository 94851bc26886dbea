"""The figures of a measurement: the progress of a program from its log, and what copies of it lose.

The quantities are those of the RAD-RM thesis, chapter 4.3.2, for a user's own job: time per epoch
(here of a copy, and per step), SM activity, memory of the whole GPU, energy and PCIe traffic. They
depend on the number of copies and the mode of sharing.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, Struct

from radrm.client.text import Document
from radrm.errors import UsageError
from radrm.lab import documents
from radrm.progress_lines import Lines
from radrm.progress_lines import compiled as compiled_pattern


class Point(Struct, frozen=True):
    """The number of steps that a program had done at a time (seconds)."""

    at_s: float
    step: float


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern of a line that reports progress. Raises `UsageError`."""
    try:
        return compiled_pattern(pattern)
    except ValueError as error:
        raise UsageError(f"--step-pattern {pattern!r}: {error}") from None


class Steps:
    """Reads one log as it grows. A line is timed when it is seen, not when it was written.

    The number of the step is the group `step` of the pattern, else its first group. Without a
    group each matching line is one step. A number that decreases (a counter that restarts with
    each epoch) is added to the last number before.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._lines = Lines()
        self._base = 0.0
        self._last = 0.0
        self.points: list[Point] = []

    def feed(self, data: bytes, now_s: float) -> None:
        """Read new text of the log, seen at this time."""
        for line in self._lines.feed(data):
            found = self._pattern.search(line)
            number = self._number(found) if found else None
            if number is not None:
                self.points.append(Point(now_s, number))

    def _number(self, found: re.Match[str]) -> float | None:
        if not self._pattern.groups:
            self._last += 1
            return self._last
        try:
            shown = float(found["step"] if "step" in self._pattern.groupindex else found[1])
        except (TypeError, ValueError):  # the group did not match, or is no number
            return None
        if shown < self._last:
            self._base += self._last
        self._last = shown
        return self._base + shown


def rate(points: Iterable[Point], since_s: float, until_s: float) -> float | None:
    """Steps per second between the first and the last report in a span of time.

    None if the span has fewer than two reports with different times and steps. The start-up of a
    program does not count, because it comes before the first report.
    """
    inside = [point for point in points if since_s <= point.at_s <= until_s]
    if not inside:
        return None
    first, last = inside[0], inside[-1]
    if last.at_s <= first.at_s or last.step <= first.step:
        return None
    return (last.step - first.step) / (last.at_s - first.at_s)


MODES = ("timeslice", "mps", "mig")
MOST_COPIES = 48
"""The most clients that one MPS server takes on a GPU (CUDA 12)."""
MOST_PROGRAMS = 8
"""Different programs in one measurement: each has a column."""


class CopyRun(Struct, frozen=True):
    """One copy. Times are seconds of the daemon's clock.

    `outcome` is that of the attempt (`completed`, `oom`, `failed`, ...; `cancelled` for a copy
    that the measurement ended early).
    """

    started_s: float
    ended_s: float
    outcome: str
    peak_mib: int | None = None
    points: Sequence[Point] = ()

    @property
    def time_s(self) -> float:
        return self.ended_s - self.started_s


class Round(Struct, frozen=True, kw_only=True):
    """The measurement of some copies at once, in one mode. None: unknown.

    `cut`: the measurement ended the copies early, so only their steps can be compared.
    `smact` is a mean over the time when all copies ran. `used_mib` is the highest memory use of
    the whole GPU above that before the round. `energy_j` is the GPU's energy from the first
    start to the last end, or to the cut. `pcie_rx_mb_s` is the traffic that the GPU received and
    `pcie_tx_mb_s` the traffic that it sent: means of samples while all copies ran.

    Under `mig` each copy has an instance of its own, all of one profile. SM activity is the mean
    of the instances with a copy, memory the sum of all.
    """

    mode: str
    runs: tuple[CopyRun, ...]
    cut: bool = False
    smact: float | None = None
    smact_source: str | None = None
    used_mib: int | None = None
    energy_j: float | None = None
    pcie_rx_mb_s: float | None = None
    pcie_tx_mb_s: float | None = None

    @property
    def copies(self) -> int:
        return len(self.runs)

    @property
    def oom(self) -> int:
        """The number of copies that ran out of GPU memory."""
        return sum(run.outcome == "oom" for run in self.runs)

    @property
    def sound(self) -> bool:
        """Whether every copy completed, or was ended by the measurement."""
        wanted = ("cancelled", "completed") if self.cut else ("completed",)
        return all(run.outcome in wanted for run in self.runs)

    @property
    def time_s(self) -> float | None:
        """The mean run time of a copy, start-up included."""
        if self.cut or not self.sound:
            return None
        return sum(run.time_s for run in self.runs) / self.copies

    @property
    def makespan_s(self) -> float | None:
        """From the first copy's start to the last one's end."""
        if self.cut or not self.sound:
            return None
        return max(r.ended_s for r in self.runs) - min(r.started_s for r in self.runs)

    @property
    def rates(self) -> list[float | None]:
        """The steps per second of each copy, while all of them reported steps."""
        if not all(run.points for run in self.runs):
            return [None] * self.copies
        since = max(run.points[0].at_s for run in self.runs)
        until = min(run.ended_s for run in self.runs)
        return [rate(run.points, since, until) for run in self.runs]

    @property
    def steps_per_s(self) -> float | None:
        """The steps per second of all copies together, while all of them reported steps."""
        known = [each for each in self.rates if each is not None]
        return sum(known) if self.sound and len(known) == self.copies else None

    @property
    def step_s(self) -> float | None:
        """The time of one step of one copy."""
        steps = self.steps_per_s
        return self.copies / steps if steps else None

    @property
    def copy_peak_mib(self) -> int | None:
        """The highest memory use of one copy, if the driver reports memory per process."""
        return max((r.peak_mib for r in self.runs if r.peak_mib is not None), default=None)

    @property
    def power_w(self) -> float | None:
        """The GPU's mean power from the first start to the last end."""
        span_s = max(r.ended_s for r in self.runs) - min(r.started_s for r in self.runs)
        return self.energy_j / span_s if self.energy_j is not None and span_s > 0 else None

    @property
    def energy_per_step_j(self) -> float | None:
        steps, power_w = self.steps_per_s, self.power_w
        return power_w / steps if steps and power_w is not None else None

    @property
    def energy_per_copy_j(self) -> float | None:
        if self.energy_j is None or self.cut or not self.sound:
            return None
        return self.energy_j / self.copies


@dataclass
class Results(ABC):
    """The rounds of a measurement that are compared, in the order of their runs."""

    rounds: list[Round] = field(default_factory=list)

    @property
    def every(self) -> list[Round]:
        """All rounds, also those that the others are compared with."""
        return self.rounds

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether there is what the rounds are compared with."""

    @abstractmethod
    def smact_alone(self, measured: Round) -> list[float | None]:
        """The SM activity alone of each program of a round."""

    @abstractmethod
    def work(self, measured: Round) -> float | None:
        """The work per time, relative to that of one after another; 1.0 is no gain."""

    def best(self) -> Round | None:
        """The round with the most work per time among those with several copies."""
        gains = [(self.work(r), -r.copies, r) for r in self.rounds if r.copies > 1]
        known = [(gain, few, r) for gain, few, r in gains if gain is not None]
        return max(known, key=lambda item: item[:2])[2] if known else None

    @abstractmethod
    def verdict(self) -> str:
        """One line: whether sharing pays, and how much."""

    @abstractmethod
    def documents(self) -> list[Document]:
        """Each round as JSON has it."""


class Copies(Results):
    """Rounds of copies. All are compared with the first sound round of a single copy."""

    @property
    def complete(self) -> bool:
        return self.baseline is not None

    def smact_alone(self, measured: Round) -> list[float | None]:
        one = self.baseline
        return [None if one is None else one.smact] * measured.copies

    @property
    def baseline(self) -> Round | None:
        return next((r for r in self.rounds if r.copies == 1 and r.sound), None)

    def work(self, measured: Round) -> float | None:
        """It compares steps per second if both rounds have them. Else it divides the time of the
        same copies one after another by the time that they took together."""
        alone = self.baseline
        if alone is None:
            return None
        if alone.steps_per_s and measured.steps_per_s:
            return measured.steps_per_s / alone.steps_per_s
        if alone.makespan_s is None or not measured.makespan_s:
            return None
        return measured.copies * alone.makespan_s / measured.makespan_s

    def slowdown(self, measured: Round) -> float | None:
        """The time of a copy for the same work, relative to one copy alone."""
        gained = self.work(measured)
        return measured.copies / gained if gained else None

    def verdict(self) -> str:
        best = self.best()
        gained = self.work(best) if best else None
        if best is None or gained is None:
            return "No verdict: no round with several copies could be compared with one copy alone."
        line = f"{best.copies} copies by {best.mode} do {gained:.2f} times the work of one alone"
        if gained <= 1:
            return f"Sharing does not pay for this program: at best, {line}."
        return f"{line}; each takes {best.copies / gained:.2f} times as long."

    def documents(self) -> list[Document]:
        return [
            round_document(each, throughput=self.work(each), slowdown=self.slowdown(each))
            for each in self.rounds
        ]


def round_document(measured: Round, **figures: Any) -> Document:
    """Return a round as JSON has it: its own figures, and these."""
    given = {
        "outcomes": [run.outcome for run in measured.runs],
        "times_s": [run.time_s for run in measured.runs],
        "memory_mib": measured.used_mib,
        "programs": UNSET,
        "slowdowns": UNSET,
        **figures,
    }
    names = documents.Round.__struct_fields__
    found = {name: given[name] if name in given else getattr(measured, name) for name in names}
    return documents.Round(**found).document


def parse_copies(text: str) -> list[int]:
    """`1,2,4` as ascending numbers. The 1 is added, because all others are compared with it.

    Raises ValueError.
    """
    try:
        wanted = {int(word) for word in text.split(",")}
    except ValueError:
        raise ValueError(f"{text!r} is not a list of numbers; write 1,2,4") from None
    if not wanted <= set(range(1, MOST_COPIES + 1)):
        raise ValueError(f"{text!r}: each must be from 1 to {MOST_COPIES}")
    return sorted(wanted | {1})


def parse_modes(text: str) -> list[str]:
    """`timeslice,mps` in the order given, each once. Raises ValueError."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",")))
    if not set(words) <= set(MODES):
        raise ValueError(f"{text!r}: the modes are {', '.join(MODES[:-1])} and {MODES[-1]}")
    return words


def parse_programs(texts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the words of each command, split as by a shell. Raises ValueError."""
    if len(texts) >= MOST_PROGRAMS:
        raise ValueError(f"{len(texts) + 1} programs, at most {MOST_PROGRAMS}")
    programs = []
    for text in texts:
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise ValueError(f"{text[:100]!r}: {str(error).lower()}") from None
        if not words:
            raise ValueError("an empty command")
        programs.append(words)
    return tuple(programs)


def coarse(rounds: Iterable[Round]) -> bool:
    """Whether SM activity is only the share of time in which any kernel ran."""
    return any((r.smact_source or "").endswith("-utilization") for r in rounds)
