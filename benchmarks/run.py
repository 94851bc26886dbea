"""Run all benchmarks and show one table. The exit code is 1 if a value exceeds its limit."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from benchmarks import (
    bulk,
    commands,
    events,
    idle,
    launch,
    long_queue,
    readings,
    reports,
    saving,
)
from benchmarks.deadlines import calls
from benchmarks.flowcon import steering
from benchmarks.past import overview
from benchmarks.retention import sweep
from benchmarks.serving import pages, redraw, scrapes
from benchmarks.simulation import simulator
from benchmarks.specon import runs as specon_runs
from benchmarks.table import Row

BENCHMARKS = (
    *(commands, launch, bulk, long_queue, pages, readings, saving, reports, idle, simulator),
    *(steering, specon_runs, calls, sweep, redraw, scrapes, overview),
)


def table(rows: list[Row]) -> Table:
    found = Table("what", "measured", "limit", "", "detail", title="radrm benchmarks, medians")
    found.columns[1].justify = found.columns[2].justify = "right"
    for row in rows:
        found.add_row(
            row.what,
            f"{row.measured:.3g} {row.unit}",
            f"{row.limit:g}",
            "[green]ok[/]" if row.fine else "[red]over[/]",
            row.detail,
        )
    return found


def main() -> int:
    console = Console()
    rows: list[Row] = []
    for benchmark in BENCHMARKS:
        with console.status(f"{benchmark.__name__} ..."):
            rows += benchmark.measure()
    console.print(table(rows))
    events.main()
    return 0 if all(row.fine for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
