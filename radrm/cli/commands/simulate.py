"""`radrm simulate`: run a trace of jobs on a simulated server, in virtual time."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.cli import simulation_options as options
from radrm.cli.options import Json
from radrm.cli.show.experiments.plots import check_plot, plot_run
from radrm.cli.show.experiments.simulations import heading, one_table, unfinished_line
from radrm.cli.show.progress import progress_bar
from radrm.cli.show.styled import show
from radrm.client.text import print_json, warn
from radrm.experiments.simulations.documents import document
from radrm.experiments.simulations.runs import capacities_mib, results
from radrm.experiments.simulations.variants import (
    Choices,
    check_settings,
    configured,
    make_variant,
)
from radrm.experiments.traces import load_trace, save_trace
from radrm.simulator.traces.trace import fitting

TraceFile = Annotated[
    str, typer.Argument(metavar="TRACE", help="A trace file; - for standard input.")
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", metavar="NAME", help="The policy; by default the configured one."),
]
Save = Annotated[
    str | None, typer.Option("--save", metavar="FILE", help="Write the trace as radrm's CSV.")
]


def simulate(
    trace: TraceFile,
    policy: Policy = None,
    gpus: options.Gpus = "sim:4xA100-40GB",
    order: options.Order = None,
    planner: options.Planner = None,
    estimator: options.Estimator = "oracle",
    known: options.Known = None,
    duration_error: options.DurationError = None,
    collocation: options.Mode = None,
    recovery: options.Recovery = None,
    fidelity: options.FidelityOption = "radrm",
    seeds: options.Seeds = 1,
    settings: options.Set = None,
    servers: options.Servers = 1,
    form: options.Form = "auto",
    profile: options.Profile = None,
    fill: options.FillTable = None,
    fill_seed: options.FillSeed = 0,
    plot: options.PlotFile = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Run a trace on a simulated server and show the result.

    \b
    Examples:
      radrm simulate trace.csv --policy magm --seeds 12
      radrm simulate trace.csv --policy lug --set policy.max_smact=0.75 --plot run.png
      sacct -P -a -S 2024-01-01 -o ... | radrm simulate - --import slurm
    """
    check_plot(plot)
    base = configured()
    choices = Choices(
        *(gpus, order, planner, collocation, recovery, fidelity, seeds),
        *(settings or (), options.known_names(known, duration_error), servers),
    )
    variant = make_variant(base, policy or base.policy, estimator, choices)
    check_settings(choices.settings, [variant.policy])
    loaded = load_trace(trace, form, tuple(profile or ()), fill, fill_seed)
    fit = fitting(loaded.jobs, capacities_mib(variant.scenario.devices))
    for note in (*loaded.notes, *fit.notes):
        warn(note)
    if save is not None:
        save_trace(save, loaded.jobs)
    with progress_bar() as progress:
        (result,) = results(fit.jobs, [variant], seeds, plot is not None, progress)
    if as_json:
        print_json(document(result, len(loaded.jobs) - len(fit.jobs)))
    else:
        show(heading(result))
        show(one_table(result))
    if line := unfinished_line([result]):
        warn(line)
    if plot is not None and result.run is not None:
        plot_run(plot, result.run, f"{variant.policy}, {estimator}")
