"""Show the demo: both servers side by side in 80 columns and 24 lines, then a table of results."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from msgspec import Struct, field
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from radrm.cli.show.devices import memory_bar
from radrm.cli.show.jobs import job_rows
from radrm.client.text import Document
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain
from radrm.extras import command
from radrm.lab.experiments.demo.numbers import ROWS, Figures, rows, verdict
from radrm.lab.experiments.demo.run import GPUS, LIMIT_S, TIME_SCALE, Run, Scene, faults, recovered

_STYLE = {
    "PENDING": "yellow",
    "LAUNCHING": "cyan",
    "RUNNING": "cyan",
    "RECOVERING": "magenta",
    "COMPLETED": "green",
}
_AT_WORK = ("LAUNCHING", "RUNNING", "STOPPING")
_BAR = 10


def live_view(scenes: Sequence[Scene]) -> RenderableType:
    """All servers at once: their GPUs, then the state of each job on each of them."""
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
                # Of a fixed width, so that the columns do not move when a number changes.
                f"{show_mib(device['used_mib']):>5}",
                "-" if smact is None else f"{smact:.2f}",
                f"{' '.join(map(str, device['jobs'])) or '-':<8}",
            ]
        table.add_row(*cells)
    return table


def _jobs(scenes: Sequence[Scene]) -> Table:
    titles: list[tuple[str, JustifyMethod]] = [(s.title.upper(), "left") for s in scenes]
    table = _table(("JOB", "right"), ("NAME", "left"), ("DECLARED", "right"), *titles)
    progress = [{job["id"]: _progress(scene, job) for job in scene.jobs} for scene in scenes]
    for job in scenes[0].jobs:
        table.add_row(
            str(job["id"]),
            plain(job["name"]),
            show_mib(job["estimate_mib"]),
            *(cells.get(job["id"], Text("-")) for cells in progress),
        )
    return table


def _progress(scene: Scene, job: Document) -> Text:
    """The state of a job, its GPUs, and its time so far, in a fixed width."""
    begun = job["started_at"] or job["submitted_at"]
    end = scene.now if job["ended_at"] is None else job["ended_at"]
    where = scene.where(job) if job["state"] in _AT_WORK else ""
    again = "2nd" if job["attempts"] > 1 and not where else ""
    text = f"{job['state']:<10} {where or again:<3} {show_seconds(end - begun):>6}"
    return Text(f"{text:<21}", style=_STYLE.get(job["state"], "red"))


# ------------------------------------------------------------------ without a terminal


class Changes(Struct):
    """Prints a line for each change of a job, for an output that is no terminal."""

    console: Console
    seen: dict[tuple[str, int], str] = field(default_factory=dict)

    def show(self, scene: Scene, seconds: float) -> None:
        """Print a line for each job with a new state or attempt; `seconds` since the start."""
        for job in scene.jobs:
            mark = f"{job['state']}.{job['attempts']}"
            if self.seen.get((scene.title, job["id"])) == mark:
                continue
            self.seen[scene.title, job["id"]] = mark
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


def _command() -> str:
    """How the user starts radrm in this shell."""
    if shutil.which("radrm"):
        return "radrm"
    program = os.path.relpath(sys.argv[0])
    return f"{sys.executable} -m radrm" if program.endswith(".py") else shlex.quote(program)


def show_end(sharing: Run, alone: Run, console: Console) -> bool:
    """Show what happened and what to type next. True if the demo succeeded."""
    if not console.is_terminal:
        scene = sharing.look()
        console.print()
        index = {device["uuid"]: device["index"] for device in scene.devices}
        console.print(job_rows(scene.jobs, index))
    console.print(f"\nOn the sharing server at most {sharing.sharers} jobs were on one GPU.")
    for job in recovered(sharing):
        console.print(
            f"{job['name']} declared {show_mib(job['estimate_mib'])} and needed "
            f"{show_mib(job['peak_mib'])}: it ran out of GPU memory, went to the front of the "
            "queue, started again on an idle GPU, and completed."
        )
    if wrong := faults(sharing, alone):
        for line in wrong:
            console.print(line, markup=False)
        console.print("[bold red]The demo failed.[/] Please report what you see above.")
        return False
    measured = {run.title: run.figures() for run in (sharing, alone)}
    console.print()
    console.print(comparison(measured))
    if not alone.over:
        done = measured[alone.title]
        console.print(
            f"The exclusive server did not finish within {LIMIT_S:.0f} s ({done.finished} of "
            f"{done.jobs} jobs): its numbers with > were measured until then."
        )
    console.print(f"\n[bold]{verdict(*measured.values())}[/]")
    console.print(
        f"(Time of the simulated clock, {TIME_SCALE:.0f} times as fast as yours; GPUs are models.)"
    )
    radrm = _command()
    console.print(
        "\nNext, with a daemon of your own (on a GPU server without --gpus):\n"
        f"  {radrm} daemon --gpus {GPUS} --time-scale 60 &\n"
        f"  {radrm} submit --gpu-memory=8G -- radrm-simjob --gpu-memory 8G --seconds 300\n"
        f"  {radrm} gpus         # each GPU's memory, SM activity and jobs\n"
        f"  {radrm} explain @    # why a job waits: the rule, with both numbers\n"
        f"{parts(radrm)}\n"
        "The tutorial goes on from here: radrm help tutorial",
        markup=False,
    )
    return True


_PARTS = (
    ("top", "textual", "top", "GPUs and jobs live, and commands by key"),
    ("serve", "starlette", "web", "the same as a web page"),
    ("metrics", "prometheus_client", "metrics", "figures for Prometheus and Grafana"),
)


def parts(radrm: str) -> str:
    """The commands that need an extra, a line each: what they show, or how to add the extra."""
    return "\n".join(
        f"  {radrm} {name:12} # {shows if find_spec(module) else f'needs: {command(extra)}'}"
        for name, module, extra, shows in _PARTS
    )
