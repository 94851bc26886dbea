"""Draw what policies do with the jobs of examples/traces/sharing.csv, for docs/policies.md.

    python -m tools.pictures.policies docs/pictures

Each picture is a Gantt chart of a simulated run, by `radrm.pages.charts`, as an SVG file that is
light or dark as the reader's setting says. `radrm simulate` with the same options has its figures.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from radrm.config import Config
from radrm.core.words import Outcome
from radrm.lab.experiments.simulations.sources import File, load_draws
from radrm.lab.experiments.simulations.variants import Choices, make_variant
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.run import Run
from radrm.pages.charts import GanttBar, GanttRow, Kind, gantt
from radrm.pages.document import CHARTS, THEME

TRACE = Path(__file__).parent.parent.parent / "examples" / "traces" / "sharing.csv"
GPUS = "sim:2xA100-40GB"
END_S = 10_800.0  # of all pictures, so that they can be compared
WIDTH = 820.0

KINDS = (Kind("completed", "blue"), Kind("out of GPU memory", "orange", "right"))


@dataclass(frozen=True, slots=True)
class Picture:
    """One run: its file's name, and the rules that are not the default ones."""

    name: str
    policy: str
    order: str | None = None
    planner: str | None = None


PICTURES = (
    Picture("policy-exclusive", "exclusive", "fifo", "strict"),
    Picture("policy-rr", "rr", "fifo", "strict"),
    Picture("policy-packing", "auto"),  # the default rules and their settings
)


def simulated(picture: Picture) -> Run:
    """Run the trace as `radrm simulate` does, under MPS, with the memory declared."""
    choices = Choices(GPUS, picture.order, picture.planner, collocation="mps")
    variant = make_variant(Config(), picture.policy, "oracle", choices)
    loaded = load_draws(File(str(TRACE)), variant, 1)
    return simulate(loaded.draws[0], variant.scenario)


def rows(run: Run) -> Iterator[GanttRow]:
    """The jobs of each GPU."""
    for at in range(len(run.devices)):
        bars = [
            GanttBar(begin_s, end_s, int(attempt.outcome is Outcome.OOM), job.job.name)
            for job in run.jobs
            for attempt in job.attempts
            for begin_s, end_s, devices in attempt.held()
            if at in devices
        ]
        yield GanttRow(f"GPU {at}", bars)


def drawn(picture: Picture) -> str:
    """An SVG document with its own stylesheet."""
    run = simulated(picture)
    ends = [job.ended_s - job.job.submit_s for job in run.jobs if job.ended_s is not None]
    said = f"{picture.name.removeprefix('policy-')}: all ended after {run.ended_s / 60:.0f} min"
    said += f", mean completion {sum(ends) / len(ends) / 60:.0f} min"
    said += f", {run.oom_count} out of GPU memory" if run.oom_count else ""
    figure = gantt(picture.name, said, list(rows(run)), KINDS, 0.0, END_S, width=WIDTH)
    drawing = figure.partition('<div class="drawing">')[2]  # before it, the legend has drawings
    found = re.match(r'<svg [^>]*viewBox="0 0 ([\d.]+) ([\d.]+)".*?</svg>', drawing, re.DOTALL)
    if found is None:
        raise ValueError("the chart has no drawing")
    ElementTree.fromstring(found[0])  # one whole element
    width, height = float(found[1]), float(found[2])
    inside = found[0].replace("<svg ", f'<svg y="26" width="{width:g}" height="{height:g}" ', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{width + 20:g}" '
        f'viewBox="-10 -6 {width + 20:g} {height + 40:g}">\n<style>{THEME}{CHARTS}\n'
        ".chart .back { fill: var(--back); }</style>\n"
        f'<rect class="back" x="-10" y="-6" width="100%" height="100%" rx="6"/>\n'
        f'<text x="0" y="14" style="font-weight: 600">{said}</text>\n{inside}\n</svg>\n'
    )


def main() -> None:
    os.environ["TZ"] = "UTC"  # the clock of the trace begins at 00:00
    time.tzset()
    for picture in PICTURES:
        (Path(sys.argv[1]) / f"{picture.name}.svg").write_text(drawn(picture))


if __name__ == "__main__":
    main()
