"""Compute the figures of different programs on one GPU. Nothing here asks or draws.

As in the RAD-RM thesis, section 4.3.4: the time of all together beside that of one after another
(Figure 4.12), and the time of each (Table 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field

from radrm.lab.experiments.collocate.numbers import CopyRun, Round, rate, round_document

Document = dict[str, Any]

_OF_COPIES = ("time_s", "step_s", "energy_per_copy_j", "energy_per_step_j", "copy_peak_mib")
"""Figures of a round that mean nothing for a mix of programs."""


class Mixed(Struct):
    """The rounds of each program alone, in order, and of all together, one for each mode."""

    alone: list[Round] = field(default_factory=list)
    together: list[Round] = field(default_factory=list)

    @property
    def every(self) -> list[Round]:
        return [*self.alone, *self.together]

    @property
    def complete(self) -> bool:
        """Whether each program alone came to a sound end."""
        return bool(self.alone) and all(each.sound for each in self.alone)

    @property
    def serial_s(self) -> float | None:
        """The time of all programs, one after another."""
        times = [each.makespan_s for each in self.alone]
        known = [time_s for time_s in times if time_s is not None]
        return sum(known) if known and len(known) == len(times) else None

    def slowdowns(self, measured: Round) -> list[float | None]:
        """Return the time of each program for the same work, relative to that alone.

        By steps where both rounds have them, while all programs ran; else by run times.
        """
        if not self.complete or not measured.sound:
            return [None] * measured.copies
        together = _rates(measured)
        found: list[float | None] = []
        for program, (alone, run) in enumerate(zip(self.alone, measured.runs, strict=True)):
            (before,) = _rates(alone)
            now = together[program]
            if before and now:
                found.append(before / now)
            elif alone.cut or measured.cut or not alone.runs[0].time_s:
                found.append(None)
            else:
                found.append(run.time_s / alone.runs[0].time_s)
        return found

    def work(self, measured: Round) -> float | None:
        """Return the work per time of all together, relative to one after another.

        By run times, to the last end; else, by steps, the sum of the programs' speeds.
        """
        if not self.complete:
            return None
        if self.serial_s is not None and measured.makespan_s:
            return self.serial_s / measured.makespan_s
        slower = self.slowdowns(measured)
        known = [each for each in slower if each]
        return sum(1 / each for each in known) if known and len(known) == len(slower) else None

    def best(self) -> Round | None:
        """Return the round together with the most work per time; None: none can be compared."""
        works = [(self.work(each), each) for each in self.together]
        known = [(work, each) for work, each in works if work is not None]
        return max(known, key=lambda item: item[0])[1] if known else None

    def documents(self) -> list[Document]:
        alone = [
            self._document(each, [program]) for program, each in enumerate(self.alone, start=1)
        ]
        everyone = list(range(1, len(self.alone) + 1))
        return alone + [self._document(each, everyone) for each in self.together]

    def _document(self, measured: Round, programs: Sequence[int]) -> Document:
        several = len(programs) > 1
        return {
            **round_document(measured),
            **(dict.fromkeys(_OF_COPIES) if several else {}),
            "throughput": self.work(measured) if several else None,
            "slowdown": None,
            "programs": list(programs),
            "slowdowns": self.slowdowns(measured) if several else None,
        }


def change(work: float | None) -> float | None:
    """Return how much more time the programs take together: -0.13 is 13 % less."""
    return None if not work else 1 / work - 1


def verdict(results: Mixed) -> str:
    """One line: whether the programs together take less time than one after another."""
    best = results.best()
    changed = change(results.work(best)) if best is not None else None
    if best is None or changed is None:
        return "No verdict: no round together could be compared with the programs alone."
    slower = results.slowdowns(best)
    shown = [f"{s:.2f} (program {n})" for n, s in enumerate(slower, start=1) if s is not None]
    each = f"; their own times are {', '.join(shown)} times those alone" if shown else ""
    if changed >= 0:
        return (
            f"Sharing does not pay for these programs: at best, by {best.mode}, they take "
            f"{changed:.0%} more time than one after another{each}."
        )
    return (
        f"Together by {best.mode} they take {-changed:.0%} less time than one after another{each}."
    )


def _rates(measured: Round) -> list[float | None]:
    """Return the steps per second of each program while all ran; None: unknown."""
    runs: Sequence[CopyRun] = measured.runs
    if not all(run.points for run in runs):
        return [None] * len(runs)
    since = max(run.points[0].at_s for run in runs)
    until = min(run.ended_s for run in runs)
    return [rate(run.points, since, until) for run in runs]
