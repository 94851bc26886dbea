"""How far a job is, by the bars that its log shows: which bar counts, and of which epoch it is.

Theory of operation. One bar counts, the *main* one. If it begins again, each of its runs is an
epoch. The job's total is known if the bar runs once, or if lines show the number of epochs
(`Epoch 2/3`). Otherwise only step and epoch are reported, with a total of 0: unknown.

When another bar appears, it becomes the main one, with an unknown total, because more may follow.
If the earlier bar goes on, the other one was nested in it or came between, and is ignored from then
on. A bar below the main one is nested in it. A minor bar (validation, loading) counts only while
there is no other one. Once lines tell epochs, only the bar after such a line counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

STEPS = "steps"
"""The label of what `step 3/10` tells, without a bar."""
_MOST_BARS = 64
_MINOR = re.compile(
    r"valid|\bval\b|eval|test|predict|sanity|load|download|fetch|\bmap\b|filter|tokeni|cach|prepar"
    r"|process|extract|resolv|generating",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Bar:
    """What tells one bar from another: how many are above it, its label, and its total."""

    above: int
    label: str
    total: float | None

    @property
    def minor(self) -> bool:
        """Whether it counts only while there is no other bar."""
        return self.label == STEPS or _MINOR.search(self.label) is not None


@dataclass
class _Runs:
    """The runs of a bar: the last step of this one, the steps of those before, their number."""

    step: float
    before: float = 0.0
    number: int = 1


@dataclass
class Epochs:
    """The last epoch that a job's files have told, and the number of all; None: not known."""

    number: float | None = None
    of: float | None = None
    from_zero: bool = False

    def take(self, number: float, of: float | None) -> None:
        """Note an epoch. One that is number 0 does not tell how many there are: n or n + 1."""
        self.from_zero = self.from_zero or number == 0
        self.number = number
        self.of = None if self.from_zero or of is None or number > of else of


@dataclass
class Course:
    """The bars of one file. `epochs`: what the files of its job tell of epochs."""

    epochs: Epochs = field(default_factory=Epochs)
    _runs: dict[Bar, _Runs] = field(default_factory=dict)
    _main: Bar | None = None
    _before: dict[Bar, bool] = field(default_factory=dict)
    """The bars that were the main one, and whether their whole was unknown."""
    _within: set[Bar] = field(default_factory=set)
    """The bars that were the main one until the one before them went on."""
    _unknown: bool = False
    """Whether nobody knows how much follows the main bar."""
    _told: tuple[float, float | None] | None = None
    """The last epoch that this file has told, and the number of all."""
    _begins: bool = False
    """Whether the next bar begins that epoch (or the one after it)."""
    _told_after: bool | None = None
    """Whether lines of their own tell an epoch after its bar; None: there was none yet."""
    _outside: bool = False
    """Whether the main bar runs once more in the same epoch: it is another bar like it."""
    _number: float | None = None

    def begin_epoch(self, number: float, of: float | None) -> None:
        """Note a line of its own that tells an epoch."""
        if self._told_after is None:
            main = self._main
            self._told_after = main is not None and self._runs[main].step == main.total
        self._begin(number, of)

    def _begin(self, number: float, of: float | None) -> None:
        self._told, self._begins = (number, of), True
        self.epochs.take(number, of)

    def at(
        self, bar: Bar, step: float, told: tuple[float, float | None] | None = None
    ) -> dict[str, float]:
        """Return what a line with a bar tells of the job. `told`: the epoch in the same line."""
        if bar.total is not None and not step <= bar.total > 0:
            return {}
        if told is not None and told != self._told:
            self._told_after = False
            self._begin(*told)
        last = self._runs[bar].step if bar in self._runs else None
        again = self._note(bar, step)
        if bar != self._main and not self._becomes_main(
            bar, again, last is not None and step > last
        ):
            return {}
        if self._begins and self._told is not None:
            later = self._told_after is True and again
            self._number = self._told[0] + later
            self._unknown = self.epochs.of is None
            self._begins = self._outside = False
        elif again:
            self._outside = self._told is not None and self.epochs.of is not None
            self._unknown = self._unknown or self.epochs.of is None
            self._number = None if self._number is None else self._number + 1
        return {} if self._outside else self._whole(bar, self._runs[bar])

    def _note(self, bar: Bar, step: float) -> bool:
        """Note a step of a bar; return whether it begins again."""
        runs = self._runs.get(bar)
        if runs is None:
            if len(self._runs) >= _MOST_BARS:
                kept = self._main
                self._runs = {} if kept is None else {kept: self._runs[kept]}
                self._before, self._within = {}, set()
            self._runs[bar] = _Runs(step)
            return False
        # Several processes may show the same bar, a step apart.
        less = 2 * step < runs.step or (step <= 1 and step < runs.step == bar.total)
        again = less or (self._begins and step < runs.step)
        if again:
            runs.before, runs.number = runs.before + runs.step, runs.number + 1
        runs.step = step
        return again

    def _becomes_main(self, bar: Bar, again: bool, advances: bool) -> bool:
        """Return whether another bar than the main one counts from now on."""
        main = self._main
        if main is None or (main.minor and not bar.minor):
            self._unknown = False
        elif bar in self._within or (bar.minor and not main.minor):
            return False
        elif self._begins:
            self._told_after = False
        elif self._told is not None and self.epochs.of is not None:
            return False
        elif bar in self._before and (again or advances):
            self._within.add(main)
            self._unknown = self._before.pop(bar) or again
        elif bar in self._before or bar.above > main.above or self._runs[bar].number > 1:
            return False
        else:
            self._before[main] = self._unknown
            self._unknown = bar.above == main.above
        self._main = bar
        return True

    def _whole(self, bar: Bar, runs: _Runs) -> dict[str, float]:
        """Return the progress of the job, from that of its main bar."""
        number, of = self._number, self.epochs.of
        if number is None and of is not None:  # another file tells the epochs, at any time
            number = runs.number
            of = None if (self.epochs.number or 0) > number + 1 else of
        if of is not None and number is not None and 0 < number <= of and bar.total is not None:
            done = (number - 1) * bar.total + runs.step
            return {"step": done, "total": of * bar.total, "epoch": number}
        found = {"step": runs.step}
        if self._unknown or number is not None:
            found = {"step": runs.before + runs.step, "total": 0.0}
            if number is not None or runs.number > 1:
                found["epoch"] = runs.number if number is None else number
        elif bar.total is not None:
            found["total"] = bar.total
        return {key: float(value) for key, value in found.items()}
