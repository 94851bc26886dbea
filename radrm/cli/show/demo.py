"""How the demo looks: both servers side by side in 80 columns and 24 lines, and the end's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from radrm.cli.show.render import memory_bar
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain
from radrm.experiments.demo.numbers import ROWS, Figures, rows

Document = dict[str, Any]

_STYLE = {
    "PENDING": "yellow",
    "LAUNCHING": "cyan",
    "RUNNING": "bold cyan",
    "RECOVERING": "bold yellow",
    "COMPLETED": "green",
}
_AT_WORK = ("LAUNCHING", "RUNNING", "STOPPING")
_BAR = 10


@dataclass(frozen=True, slots=True)
class Scene:
    """One server at one time, on its own clock."""

    title: str
    jobs: Sequence[Document]
    devices: Sequence[Document]
    now: float

    def where(self, job: Document) -> str:
        index = {device["uuid"]: str(device["index"]) for device in self.devices}
        return ",".join(index.get(uuid, "?") for uuid in job["devices"])


def live_view(scenes: Sequence[Scene]) -> RenderableType:
    """All servers at once: their GPUs, then each job's fate on each. Never wider than it must."""
    return Group(_devices(scenes), Text(""), _jobs(scenes))


def _table(*columns: tuple[str, JustifyMethod]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")
    return table


def _devices(scenes: Sequence[Scene]) -> Table:
    columns: list[tuple[str, JustifyMethod]] = [("GPU", "right")]
    for scene in scenes:
        columns += [(scene.title, "left"), ("USED", "right"), ("SMACT", "right"), ("JOBS", "left")]
    table = _table(*columns)
    for devices in zip(*(scene.devices for scene in scenes), strict=True):
        cells: list[RenderableType] = [str(devices[0]["index"])]
        for device in devices:
            smact = device["smact"]
            cells += [
                memory_bar(device["used_mib"], device["total_mib"], _BAR),
                # Of a fixed width, so that nothing moves when a number does.
                f"{show_mib(device['used_mib']):>5}",
                "-" if smact is None else f"{smact:.2f}",
                f"{' '.join(map(str, device['jobs'])) or '-':<8}",
            ]
        table.add_row(*cells)
    return table


def _jobs(scenes: Sequence[Scene]) -> Table:
    titles: list[tuple[str, JustifyMethod]] = [(s.title.upper(), "left") for s in scenes]
    table = _table(("JOB", "right"), ("NAME", "left"), ("DECLARED", "right"), *titles)
    fates = [{job["id"]: _fate(scene, job) for job in scene.jobs} for scene in scenes]
    for job in scenes[0].jobs:
        table.add_row(
            str(job["id"]),
            plain(job["name"]),
            show_mib(job["estimate_mib"]),
            *(fate.get(job["id"], Text("-")) for fate in fates),
        )
    return table


def _fate(scene: Scene, job: Document) -> Text:
    """State, where, and since when or for how long, in a fixed width."""
    begun = job["started_at"] or job["submitted_at"]
    end = scene.now if job["ended_at"] is None else job["ended_at"]
    where = scene.where(job) if job["state"] in _AT_WORK else ""
    again = "2nd" if job["attempts"] > 1 and not where else ""
    text = f"{job['state']:<10} {where or again:<3} {show_seconds(end - begun):>6}"
    return Text(f"{text:<21}", style=_STYLE.get(job["state"], "red"))


# ------------------------------------------------------------------ without a terminal


@dataclass(slots=True)
class Changes:
    """Where there is no terminal to draw on: a line for each change of a job."""

    console: Console
    seen: dict[tuple[str, int], str] = field(default_factory=dict)

    def say(self, scene: Scene, seconds: float) -> None:
        for job in scene.jobs:
            said = f"{job['state']}.{job['attempts']}"
            if self.seen.get((scene.title, job["id"])) == said:
                continue
            self.seen[scene.title, job["id"]] = said
            at_work = job["state"] in _AT_WORK
            what = f"on GPU {scene.where(job)}" if at_work else job["reason"] or ""
            self.console.print(
                f"{seconds:5.1f}s  {scene.title:<9}  job {job['id']:>2} "
                f"{job['name']:<18} {job['state']:<10} {plain(what)}".rstrip(),
                markup=False,
            )


# ------------------------------------------------------------------ the end


def comparison(runs: Mapping[str, Figures]) -> Table:
    """The runs side by side, a column each."""
    table = _table(("", "left"), *((title, "right") for title in runs))
    table.padding = (0, 3, 0, 0)
    for name, *cells in zip(ROWS, *(rows(figures) for figures in runs.values()), strict=True):
        table.add_row(name, *cells)
    return table
