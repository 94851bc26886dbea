"""`radrm trace`: draw a trace, or play one through a daemon."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from radrm.cli import simulation_options as options
from radrm.client.text import warn
from radrm.core.units import parse_seconds
from radrm.errors import UsageError
from radrm.experiments.traces import load_kinds, load_trace, save_trace
from radrm.simulator.traces.make import arrivals, make_trace, parse_mix
from radrm.simulator.traces.trace import trace_lines

trace = typer.Typer(
    name="trace",
    help="Draw a trace, or play one through a daemon.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TraceFile = Annotated[
    str, typer.Argument(metavar="TRACE", help="A trace file; - for standard input.")
]


@trace.command()
def make(
    trace: TraceFile,
    kinds: Annotated[
        str,
        typer.Option(
            metavar="CSV",
            help="Kinds of jobs: name,gpus,duration_s,memory_mib,smact, optionally class,share.",
        ),
    ],
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of jobs; by default all of the window."),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="The window's begin after the first job: 36h."),
    ] = None,
    hours: Annotated[
        float | None, typer.Option(metavar="H", min=0.0, help="The window's length.")
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(metavar="CLASS=SHARE,...", help="Shares of the classes: light=65,heavy=35."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random choice.")] = 0,
    form: options.Form = "auto",
    profile: options.Profile = None,
    save: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write here, not to standard output.")
    ] = None,
) -> None:
    """Draw a trace: submission times of a window of TRACE, jobs of a table of kinds.

    With --jobs, some of the window's submissions are chosen, since a cluster's are too many for
    one server. --mix gives each class its exact share of the jobs. The same arguments give the
    same trace.

    \b
    Examples:
      radrm trace make philly.csv --kinds kinds.csv --from 36h --hours 8 --jobs 90 \\
        --mix light=65,medium=27,heavy=8 --seed 1 --save light90.csv
    """
    from_s = 0.0
    if begin is not None:
        try:
            from_s = parse_seconds(begin)
        except ValueError as error:
            raise UsageError(f"--from: {error}") from None
    shares = parse_mix(mix) if mix is not None else None
    table = load_kinds(kinds)
    source = load_trace(trace, form, tuple(profile or ()))
    length_s = float("inf") if hours is None else hours * 3600
    times_s, there = arrivals(source.jobs, from_s, length_s, jobs, seed)
    drawn = make_trace(times_s, table, shares, seed)
    chosen = f"{len(times_s)} of {there} submissions of the window"
    warn("; ".join((chosen, *drawn.notes)))
    if save is not None:
        save_trace(save, drawn.jobs)
    else:
        sys.stdout.writelines(trace_lines(drawn.jobs))
