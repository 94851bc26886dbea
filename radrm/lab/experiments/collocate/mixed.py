"""Compute the figures of different programs on one GPU. Nothing here asks or draws.

As in the RAD-RM thesis, section 4.3.4: the time of all together beside that of one after another
(Figure 4.12), and the time of each (Table 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from radrm.client.text import Document
from radrm.lab.experiments.collocate.numbers import Results, Round, round_document

_NOT_OF_A_MIX: Document = dict.fromkeys(
    ("time_s", "step_s", "energy_per_copy_j", "energy_per_step_j", "copy_peak_mib")
)
"""Figures of a round that mean nothing for a mix of programs."""


@dataclass
class Mixed(Results):
    """Rounds of all programs together, one for each mode. `alone`: those of each alone, in
    order."""

    alone: list[Round] = field(default_factory=list)

    @property
    def every(self) -> list[Round]:
        return [*self.alone, *self.rounds]

    def smact_alone(self, measured: Round) -> list[float | None]:
        return [each.smact for each in self.alone]

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
        found: list[float | None] = []
        for alone, run, now in zip(self.alone, measured.runs, measured.rates, strict=True):
            (before,) = alone.rates
            if before and now:
                found.append(before / now)
            elif alone.cut or measured.cut or not alone.runs[0].time_s:
                found.append(None)
            else:
                found.append(run.time_s / alone.runs[0].time_s)
        return found

    def work(self, measured: Round) -> float | None:
        """By run times, to the last end; else, by steps, the sum of the programs' speeds."""
        if not self.complete:
            return None
        if self.serial_s is not None and measured.makespan_s:
            return self.serial_s / measured.makespan_s
        slower = self.slowdowns(measured)
        known = [each for each in slower if each]
        return sum(1 / each for each in known) if known and len(known) == len(slower) else None

    def verdict(self) -> str:
        best = self.best()
        changed = change(self.work(best)) if best is not None else None
        if best is None or changed is None:
            return "No verdict: no round together could be compared with the programs alone."
        slower = self.slowdowns(best)
        shown = [f"{s:.2f} (program {n})" for n, s in enumerate(slower, start=1) if s is not None]
        each = f"; their own times are {', '.join(shown)} times those alone" if shown else ""
        if changed >= 0:
            return (
                f"Sharing does not pay for these programs: at best, by {best.mode}, they take "
                f"{changed:.0%} more time than one after another{each}."
            )
        return (
            f"Together by {best.mode} they take {-changed:.0%} less time than one after "
            f"another{each}."
        )

    def documents(self) -> list[Document]:
        nothing = {"throughput": None, "slowdown": None, "slowdowns": None}
        alone = [
            round_document(each, **nothing, programs=[program])
            for program, each in enumerate(self.alone, start=1)
        ]
        everyone = {**nothing, **_NOT_OF_A_MIX, "programs": list(range(1, len(self.alone) + 1))}
        return alone + [
            round_document(
                each,
                **{**everyone, "throughput": self.work(each), "slowdowns": self.slowdowns(each)},
            )
            for each in self.rounds
        ]


def change(work: float | None) -> float | None:
    """Return how much more time the programs take together: -0.13 is 13 % less."""
    return None if not work else 1 / work - 1
