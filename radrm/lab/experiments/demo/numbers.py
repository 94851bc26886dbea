"""Compute the figures of the demo's two runs from measurements. Nothing here draws or asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from radrm.client.text import FINAL, Document
from radrm.core.units import show_seconds


class Meter(Struct):
    """SM activity and energy of all devices together, over the added readings.

    The value between two readings is their mean. Spans without a measurement do not count in
    the mean activity. One missing power value makes the energy unknown (None).
    """

    activity_s: float = 0.0
    measured_s: float = 0.0
    energy_j: float | None = 0.0
    _before: tuple[float, Mapping[str, Document]] | None = None

    def add(self, now_s: float, devices: Iterable[Document]) -> None:
        """Add the documents of `gpus` at this time (seconds, never decreasing)."""
        found = {device["uuid"]: device for device in devices}
        if self._before is not None:
            before_s, earlier = self._before
            for uuid in found.keys() & earlier.keys():
                self._advance(now_s - before_s, earlier[uuid], found[uuid])
        self._before = now_s, found

    def _advance(self, seconds: float, first: Document, last: Document) -> None:
        if first["smact"] is not None and last["smact"] is not None:
            self.activity_s += seconds * (first["smact"] + last["smact"]) / 2
            self.measured_s += seconds
        if first["power_w"] is None or last["power_w"] is None:
            self.energy_j = None
        elif self.energy_j is not None:
            self.energy_j += seconds * (first["power_w"] + last["power_w"]) / 2

    @property
    def activity(self) -> float | None:
        """The mean SM activity of a device (0..1), None if none was measured."""
        return self.activity_s / self.measured_s if self.measured_s > 0 else None


class Figures(Struct, frozen=True):
    """The figures of one run. If it is unfinished, its three times are lower bounds.

    `wait_s` is all the time in which a job was not running, waits for recovery included. `jct_s`
    is from its submission to its end. Both are means over the jobs.
    """

    jobs: int
    finished: int
    makespan_s: float
    wait_s: float
    jct_s: float
    activity: float | None
    energy_j: float | None
    oom: int

    @property
    def whole(self) -> bool:
        return self.finished == self.jobs


def figures(explained: Sequence[Document], meter: Meter) -> Figures:
    """The figures of a run, from the answers to `explain` for all its jobs (at least one)."""
    begun_s = min(e["job"]["submitted_at"] for e in explained)
    spans, waits, ends = [], [], []
    for each in explained:
        job = each["job"]
        end_s = each["now"] if job["ended_at"] is None else job["ended_at"]
        ran_s = sum(
            (end_s if a["ended_at"] is None else a["ended_at"]) - a["launched_at"]
            for a in each["attempts"]
        )
        ends.append(end_s)
        spans.append(end_s - job["submitted_at"])
        waits.append(spans[-1] - ran_s)
    return Figures(
        jobs=len(explained),
        finished=sum(e["job"]["state"] in FINAL for e in explained),
        makespan_s=max(ends) - begun_s,
        wait_s=sum(waits) / len(waits),
        jct_s=sum(spans) / len(spans),
        activity=meter.activity,
        energy_j=meter.energy_j,
        oom=sum(e["job"]["oom_count"] for e in explained),
    )


def rows(figures: Figures) -> list[str]:
    """One run's cells of the table, named by `ROWS`. A lower bound has a `>`."""
    least = "" if figures.whole else ">"
    return [
        f"{figures.finished} of {figures.jobs}",
        least + show_seconds(figures.makespan_s),
        least + show_seconds(figures.wait_s),
        least + show_seconds(figures.jct_s),
        "-" if figures.activity is None else f"{figures.activity:.0%}",
        "-" if figures.energy_j is None else f"{least}{figures.energy_j / 3.6e6:.2f} kWh",
        str(figures.oom),
    ]


ROWS = (
    "jobs finished",
    "until the last job ended",
    "mean waiting, recovery included",
    "mean from submission to end",
    "mean SM activity of the GPUs",
    "energy of the GPUs until then",
    "deaths by GPU out-of-memory",
)


def verdict(sharing: Figures, alone: Figures) -> str:
    """One line that compares the runs: time, SM activity and energy."""
    if not sharing.whole:
        return "No verdict: sharing did not finish."
    if not alone.whole and alone.makespan_s <= sharing.makespan_s:
        return "No verdict: the exclusive run was not watched for long enough."
    least = "" if alone.whole else "at least "
    time = _change(sharing.makespan_s, alone.makespan_s, ("sooner", "later"))
    said = f"Sharing ended the same jobs {least + time if time else 'in the same time'}"
    if sharing.activity is not None and alone.activity is not None:
        said += f", with the GPUs {sharing.activity:.0%} busy instead of {alone.activity:.0%}"
    if sharing.energy_j is not None and alone.energy_j is not None:
        energy = _change(sharing.energy_j, alone.energy_j, ("less", "more"))
        # The energy of an unfinished run still grows, so only "less" is certain.
        if alone.whole or sharing.energy_j < alone.energy_j:
            said += f", for {least + energy if energy else 'the same'} energy"
    return said + "."


def _change(value: float, other: float, words: tuple[str, str]) -> str | None:
    """The difference of `value` from `other`, in whole percent; None if there is none."""
    percent = round(100 * (value / other - 1)) if other > 0 else 0
    return f"{abs(percent)}% {words[percent > 0]}" if percent else None
