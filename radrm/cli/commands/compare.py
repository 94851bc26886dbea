"""`radrm compare`: policies side by side on the same trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from radrm.cli import simulations as options
from radrm.cli.commands.simulate import TraceFile
from radrm.cli.options import Json
from radrm.cli.show.plots import check_plot, plot_comparison
from radrm.cli.show.render import out
from radrm.cli.show.simulations import FOOT, compared_table, document, unfinished_line
from radrm.cli.simulations import (
    Choices,
    Variant,
    capacities_mib,
    check_settings,
    configured,
    make_variant,
    results,
)
from radrm.client.text import print_json, warn
from radrm.config import Config
from radrm.errors import UsageError
from radrm.experiments.traces import load_trace
from radrm.policies import POLICIES
from radrm.simulator.trace import fitting

ALONE = "exclusive"
"""What all others are compared with: it stands first."""

Estimators = Annotated[
    list[str] | None,
    typer.Option("--estimator", metavar="NAME", help="As of simulate; again for each, or a,b."),
]


def compare(
    trace: TraceFile,
    policy: options.Policies = None,
    gpus: options.Gpus = "sim:4xA100-40GB",
    order: options.Order = None,
    planner: options.Planner = None,
    estimator: Estimators = None,
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
    as_json: Json = False,
) -> None:
    """Run a trace under several policies, beside exclusive and the lower bounds.

    \b
    Examples:
      radrm compare trace.csv --seeds 12
      radrm compare trace.csv --policy magm,lug --estimator none,horus --plot bars.png
    """
    check_plot(plot)
    base = configured()
    choices = Choices(
        *(gpus, order, planner, collocation, recovery, fidelity, seeds),
        *(settings or (), smact_known, servers),
    )
    variants = chosen(base, words(policy) or list(POLICIES), words(estimator), choices)
    loaded = load_trace(trace, form, tuple(profile or ()), fill, fill_seed)
    fit = fitting(loaded.jobs, capacities_mib(variants[0].scenario.devices))
    for note in (*loaded.notes, *fit.notes):
        warn(note)
    found = results(fit.jobs, variants, seeds)
    if as_json:
        left_out = len(loaded.jobs) - len(fit.jobs)
        print_json([document(result, left_out) for result in found])
    else:
        console = out()
        console.print(compared_table(found))
        console.print(Text(f"{len(fit.jobs)} jobs; in percent: of {ALONE}. {FOOT}"))
    if line := unfinished_line(found):
        warn(line)
    if plot is not None:
        plot_comparison(plot, found)


def words(given: Sequence[str] | None) -> list[str]:
    """Names, each once, as said again and again or with commas."""
    return list(
        dict.fromkeys(w.strip() for each in given or () for w in each.split(",") if w.strip())
    )


def chosen(
    base: Config, policies: Sequence[str], estimators: Sequence[str], choices: Choices
) -> list[Variant]:
    """Exclusive, and every other policy with every estimator."""
    others = [name for name in policies if name != ALONE]
    check_settings(choices.settings, others or [ALONE])
    told = list(estimators) or ["oracle"]
    if len(others) * len(told) > 200:
        raise UsageError("more than 200 policies and estimators to compare; name fewer")
    found = [make_variant(base, ALONE, told[0], choices)]
    return found + [make_variant(base, name, each, choices) for name in others for each in told]
