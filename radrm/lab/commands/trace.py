"""`radrm trace`: draw a trace, or play one through a daemon."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from radrm.cli.options import Json, finite
from radrm.cli.show.progress import progress_bar
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json, warn
from radrm.config import Config, resolved
from radrm.core.units import parse_seconds, show_seconds
from radrm.core.words import Collocation
from radrm.errors import UsageError
from radrm.lab import options
from radrm.lab.experiments.demo.server import orderly_end
from radrm.lab.experiments.live.play import Server, own_server
from radrm.lab.experiments.live.submissions import Commands, without_commands
from radrm.lab.experiments.live.trace import (
    Played,
    check_length,
    note_on_clock,
    play_own,
    play_private,
    played_document,
)
from radrm.lab.experiments.simulations.past import described
from radrm.lab.experiments.simulations.runs import capacities_mib
from radrm.lab.experiments.simulations.sources import load_kinds, load_trace, save_trace
from radrm.lab.experiments.simulations.variants import (
    Choices,
    Variant,
    check_settings,
    configured,
    make_variant,
)
from radrm.lab.show.plots import check_plot, plot_run
from radrm.lab.show.replay import gains_table, played_table, unfinished_live
from radrm.lab.simulator.scenario import AUTO
from radrm.lab.simulator.traces.draw import arrivals, make_trace, parse_mix
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.trace import fitting, trace_lines
from radrm.simulated.spec import parse
from radrm.structs import replace

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
        float | None,
        typer.Option(metavar="H", min=0.0, callback=finite, help="The window's length."),
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


@trace.command()
def run(
    trace: TraceFile,
    gpus: Annotated[
        str | None,
        typer.Option(metavar="sim:SPEC", help="A private daemon on simulated GPUs."),
    ] = None,
    time_scale: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=1.0,
            max=10_000.0,
            callback=finite,
            help="Its clock is N times as fast, by default 60.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Its policies, a run each: repeat it, or use a,b,c."),
    ] = None,
    order: options.Order = None,
    planner: options.Planner = None,
    collocation: options.Mode = None,
    recovery: options.Recovery = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, as policy.max_smact=0.75."),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What each job declares as its memory: oracle (what the trace says), none, or a "
            "column NAME_mib.",
        ),
    ] = "oracle",
    known: options.Known = None,
    command: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="Command of each job; {name} and others are filled in."),
    ] = None,
    jobs_dir: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder with a job file NAME.rad per job.")
    ] = None,
    form: options.Form = "auto",
    profile: options.Profile = None,
    fill: options.FillTable = None,
    fill_seed: options.FillSeed = 0,
    plot: options.PlotFile = None,
    as_json: Json = False,
) -> None:
    """Play a trace through a daemon, and show its metrics beside the simulator's.

    Without --gpus, the jobs are submitted to your daemon at their times, as ordinary jobs with
    commands of their own: --command, --jobs-dir, or a column command of the trace. With --gpus, a
    private daemon runs stand-ins on simulated GPUs; it takes several policies, one after another,
    and compares them. Ctrl-C cancels what was submitted.

    \b
    Examples:
      radrm trace run trace.csv --gpus sim:4xA100-40GB --policy exclusive,magm
      radrm trace run trace.csv --command 'python train.py --model {name} --batch {batch_size}'
    """
    check_plot(plot)
    if estimator == AUTO:
        raise UsageError(
            "--estimator auto: a job declares a figure; choose none, and your daemon "
            "estimates by itself"
        )
    choices = Choices(
        gpus=gpus or "",
        order=order,
        planner=planner,
        collocation=collocation,
        recovery=recovery,
        settings=settings or (),
        known=options.names(known),
    )
    names = options.names(policy)
    loaded = load_trace(trace, form, tuple(profile or ()), fill, fill_seed)
    for note in loaded.notes:
        warn(note)
    commands = Commands(jobs_dir, command, stand_ins=gpus is not None)
    if gpus is not None:
        if command is not None or jobs_dir is not None:
            raise UsageError("--gpus runs stand-ins; leave out --command and --jobs-dir")
        scale = time_scale or 60.0
        played, left_out = _on_private(loaded.jobs, names, estimator, choices, scale)
    else:
        if time_scale is not None or any((names, order, planner, collocation, recovery, settings)):
            raise UsageError(
                "--time-scale, --policy, --order, --planner, --collocation, --recovery and --set "
                "are of a private daemon: add --gpus=sim:4xA100-40GB"
            )
        played, left_out, scale = _on_own(loaded.jobs, estimator, choices, commands)
    _show(played, scale, left_out, as_json)
    if plot is not None:
        path, ending = os.path.splitext(plot)
        for each in played:
            name = plot if len(played) == 1 else f"{path}-{each.policy}{ending}"
            plot_run(name, each.run, f"{each.policy}, live")


def _on_private(
    jobs: Sequence[TraceJob],
    names: Sequence[str],
    estimator: str,
    choices: Choices,
    scale: float,
) -> tuple[list[Played], int]:
    """Play the trace under each policy. Returns the runs, and the number of jobs left out."""
    if any(setting.strip().startswith("life.") for setting in choices.settings):
        raise UsageError("--set life.KEY is of the simulator's model; leave it out")
    parse(choices.gpus)  # refuses several servers: a daemon has one
    # The private daemon has no configuration file.
    base = Config()
    variants = [make_variant(base, name, estimator, choices) for name in names or [base.policy]]
    check_settings(choices.settings, [variant.policy for variant in variants])
    fit = _fitting(jobs, variants[0])
    if note := note_on_clock(fit, scale):
        warn(note)
    played = []
    with orderly_end(lambda: warn("stopped; the private daemon ends its jobs")):
        for variant in variants:
            with progress_bar("jobs") as progress:
                played.append(play_private(fit, variant, choices.gpus, scale, progress))
    return played, len(jobs) - len(fit)


def _on_own(
    jobs: Sequence[TraceJob], estimator: str, choices: Choices, commands: Commands
) -> tuple[list[Played], int, float]:
    """Play the trace through the user's daemon. As `_on_private`; also the clock's speed."""
    with own_server() as server:
        if server.gpus is not None and commands == Commands() and without_commands(jobs):
            commands = Commands(stand_ins=True)
        variant = _variant_of(server, estimator, choices)
        fit = _fitting(jobs, variant)
        with orderly_end(), progress_bar("jobs") as progress:
            played = play_own(server, fit, variant, commands, progress)
    return [played], len(jobs) - len(fit), server.scale


def _variant_of(server: Server, estimator: str, choices: Choices) -> Variant:
    """The simulation of a daemon: its GPUs and rules, else the configuration in force."""
    about: dict[str, Any] = server.ask("ping")
    devices = server.ask("gpus")
    config = configured()
    meant = resolved(config)
    if (meant.policy, meant.order) != (about["policy"], about["order"]):
        config = dataclasses.replace(config, policy=about["policy"], order=about["order"])
    shared = "mps" if any(device["mps"] for device in devices) else "timeslice"
    if config.collocation is Collocation.EXCLUSIVE:
        shared = "exclusive"
    choices = replace(choices, gpus=server.gpus or described(devices), collocation=shared)
    return make_variant(config, config.policy, estimator, choices)


def _fitting(jobs: Sequence[TraceJob], variant: Variant) -> Sequence[TraceJob]:
    fit = fitting(jobs, capacities_mib(variant.scenario.devices))
    for note in fit.notes:
        warn(note)
    check_length(fit.jobs)
    return fit.jobs


def _show(played: Sequence[Played], scale: float, left_out: int, as_json: bool) -> None:
    if as_json:
        print_json(played_document(played, scale, left_out))
    else:
        for each in played:
            show(played_table(each))
        if len(played) > 1:
            show(gains_table(played))
        took = show_seconds(played[0].live.makespan_s / scale)
        show(Styled(f"{played[0].live.jobs} jobs; clock x{scale:g}, the first run took {took}."))
    for each in played:
        if line := unfinished_live(each):
            warn(line)
