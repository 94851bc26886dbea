"""`radrm compare`: compare policies on the same trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from radrm.cli import simulation_options as options
from radrm.cli.commands.simulate import TraceFile
from radrm.cli.options import Json
from radrm.cli.show.experiments.advice import show_advice
from radrm.cli.show.experiments.plots import check_plot, plot_comparison
from radrm.cli.show.experiments.simulations import FOOT, compared_table, unfinished_line
from radrm.cli.show.progress import progress_bar
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json, warn
from radrm.errors import UsageError
from radrm.experiments.simulations.advice import advice_document, variants_to_try
from radrm.experiments.simulations.advice import advise as find_advice
from radrm.experiments.simulations.advice import objective as objective_of
from radrm.experiments.simulations.documents import document
from radrm.experiments.simulations.runs import capacities_mib, results
from radrm.experiments.simulations.variants import (
    ALONE,
    Choices,
    Variant,
    check_settings,
    compared_variants,
    configured,
    make_variant,
)
from radrm.experiments.traces import load_trace
from radrm.policies import POLICIES
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.trace import Trace, fitting

Estimators = Annotated[
    list[str] | None,
    typer.Option("--estimator", metavar="NAME", help="As for simulate: repeat it, or use a,b."),
]

_ADVICE_SEEDS = 6


def compare(
    trace: TraceFile,
    policy: options.Policies = None,
    gpus: options.Gpus = "sim:4xA100-40GB",
    order: options.Order = None,
    planner: options.Planners = None,
    estimator: Estimators = None,
    known: options.Known = None,
    duration_error: options.DurationError = None,
    collocation: options.Mode = None,
    recovery: options.Recovery = None,
    fidelity: options.FidelityOption = "radrm",
    seeds: options.SomeSeeds = None,
    advise: options.Advise = False,
    objective: options.Objective = "completion",
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
      radrm compare trace.csv --advise --objective makespan
    """
    check_plot(plot)
    metric = objective_of(objective)
    seeds = seeds or (_ADVICE_SEEDS if advise else 1)
    base = configured()
    choices = Choices(
        *(gpus, order, None, collocation, recovery, fidelity, seeds),
        *(settings or (), options.known_names(known, duration_error), servers),
    )
    estimators = options.names(estimator)
    loaded = load_trace(trace, form, tuple(profile or ()), fill, fill_seed)
    if advise:
        (own,) = _at_most_one(estimators) or ["oracle"]
        plan = "+".join(options.names(planner)) or None
        present = make_variant(base, base.policy, own, replace(choices, planner=plan))
        check_settings(choices.settings, [present.policy, *POLICIES])
        jobs = _fitting(loaded, present)
        tried = variants_to_try(base, present, choices, options.names(policy))
        with progress_bar() as progress:
            advice = find_advice([jobs], present, *tried, metric, seeds, progress)
        if as_json:
            print_json(advice_document(advice))
        else:
            show_advice(advice, "Ranges: about 95% intervals of the mean.")
        return
    variants = compared_variants(
        base,
        options.names(policy) or list(POLICIES),
        estimators,
        choices,
        options.names(planner),
    )
    jobs = _fitting(loaded, variants[0])
    with progress_bar() as progress:
        found = results(jobs, variants, seeds, progress=progress)
    if as_json:
        left_out = len(loaded.jobs) - len(jobs)
        print_json([document(result, left_out) for result in found])
    else:
        show(compared_table(found))
        show(Styled(f"{len(jobs)} jobs; in percent: of {ALONE}. {FOOT}"))
    if line := unfinished_line(found):
        warn(line)
    if plot is not None:
        plot_comparison(plot, found)


def _fitting(loaded: Trace, variant: Variant) -> tuple[TraceJob, ...]:
    """The jobs that fit the GPUs; warns about the others."""
    fit = fitting(loaded.jobs, capacities_mib(variant.scenario.devices))
    for note in (*loaded.notes, *fit.notes):
        warn(note)
    return fit.jobs


def _at_most_one(estimators: list[str]) -> list[str]:
    if len(estimators) > 1:
        raise UsageError(f"--advise takes one --estimator, not {len(estimators)}; name one")
    return estimators
