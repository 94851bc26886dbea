"""`radrm compare`: compare policies on the same trace."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.cli import simulation_options as options
from radrm.cli.commands.simulate import TraceFile
from radrm.cli.options import Json
from radrm.cli.show.experiments.plots import check_plot, plot_comparison
from radrm.cli.show.experiments.simulations import FOOT, compared_table, unfinished_line
from radrm.cli.show.progress import progress_bar
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json, warn
from radrm.experiments.simulations.documents import document
from radrm.experiments.simulations.runs import capacities_mib, results
from radrm.experiments.simulations.variants import (
    ALONE,
    Choices,
    compared_variants,
    configured,
)
from radrm.experiments.traces import load_trace
from radrm.policies import POLICIES
from radrm.simulator.traces.trace import fitting

Estimators = Annotated[
    list[str] | None,
    typer.Option("--estimator", metavar="NAME", help="As for simulate: repeat it, or use a,b."),
]


def compare(
    trace: TraceFile,
    policy: options.Policies = None,
    gpus: options.Gpus = "sim:4xA100-40GB",
    order: options.Order = None,
    planner: options.Planners = None,
    estimator: Estimators = None,
    known: options.Known = None,
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
    as_json: Json = False,
) -> None:
    """Run a trace under several policies, beside the lower bounds.

    \b
    Examples:
      radrm compare trace.csv --seeds 12
      radrm compare trace.csv --policy magm,lug --estimator none,horus --plot bars.png
    """
    check_plot(plot)
    base = configured()
    choices = Choices(
        *(gpus, order, None, collocation, recovery, fidelity, seeds),
        *(settings or (), options.names(known), servers),
    )
    variants = compared_variants(
        base,
        options.names(policy) or list(POLICIES),
        options.names(estimator),
        choices,
        options.names(planner),
    )
    loaded = load_trace(trace, form, tuple(profile or ()), fill, fill_seed)
    fit = fitting(loaded.jobs, capacities_mib(variants[0].scenario.devices))
    for note in (*loaded.notes, *fit.notes):
        warn(note)
    with progress_bar() as progress:
        found = results(fit.jobs, variants, seeds, progress=progress)
    if as_json:
        left_out = len(loaded.jobs) - len(fit.jobs)
        print_json([document(result, left_out) for result in found])
    else:
        show(compared_table(found))
        show(Styled(f"{len(fit.jobs)} jobs; in percent: of {ALONE}. {FOOT}"))
    if line := unfinished_line(found):
        warn(line)
    if plot is not None:
        plot_comparison(plot, found)
