"""`radrm simulate`: a trace of jobs on a modelled server, in virtual time."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.cli import simulations as options
from radrm.cli.options import Json
from radrm.cli.show.plots import check_plot, plot_run
from radrm.cli.show.render import out
from radrm.cli.show.simulations import document, heading, one_table, unfinished_line
from radrm.cli.simulations import (
    Choices,
    capacities_mib,
    check_settings,
    configured,
    make_variant,
    results,
)
from radrm.client.text import print_json, warn
from radrm.experiments.traces import load_trace, save_trace
from radrm.simulator.trace import fitting

TraceFile = Annotated[str, typer.Argument(metavar="TRACE", help="A trace; - for standard input.")]
Policy = Annotated[
    str | None, typer.Option("--policy", metavar="NAME", help="Which devices; as configured.")
]
Save = Annotated[
    str | None, typer.Option("--save", metavar="FILE", help="Write the trace as radrm's own CSV.")
]


def simulate(
    trace: TraceFile,
    policy: Policy = None,
    gpus: options.Gpus = "sim:4xA100-40GB",
    order: options.Order = None,
    planner: options.Planner = None,
    estimator: options.Estimator = "oracle",
    smact_known: options.SmactKnown = False,
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
    """Run a trace on a modelled server and tell what came of it.

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
        *(settings or (), smact_known, servers),
    )
    variant = make_variant(base, policy or base.policy, estimator, choices)
    check_settings(choices.settings, [variant.policy])
    loaded = load_trace(trace, form, tuple(profile or ()), fill, fill_seed)
    fit = fitting(loaded.jobs, capacities_mib(variant.scenario.devices))
    for note in (*loaded.notes, *fit.notes):
        warn(note)
    if save is not None:
        save_trace(save, loaded.jobs)
    (result,) = results(fit.jobs, [variant], seeds, whole=plot is not None)
    if as_json:
        print_json(document(result, len(loaded.jobs) - len(fit.jobs)))
    else:
        console = out()
        console.print(heading(result), soft_wrap=True)
        console.print(one_table(result))
    if line := unfinished_line([result]):
        warn(line)
    if plot is not None and result.run is not None:
        plot_run(plot, result.run, f"{variant.policy}, {estimator}")
