"""`radrm simulate`: run a trace of jobs on a simulated server, in virtual time."""

from __future__ import annotations

from typing import Annotated

import typer

from radrm.cli import simulation_options as options
from radrm.cli.options import Json
from radrm.cli.show.experiments.plots import check_plot, plot_run
from radrm.cli.show.experiments.simulations import (
    heading,
    one_table,
    setting_line,
    unfinished_line,
)
from radrm.cli.show.progress import progress_bar
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json, warn
from radrm.experiments.simulations.documents import document
from radrm.experiments.simulations.mixes import mix_of
from radrm.experiments.simulations.runs import results_of_draws
from radrm.experiments.simulations.sources import File, load_draws, with_mix_settings
from radrm.experiments.simulations.variants import (
    ALONE,
    Choices,
    check_settings,
    configured,
    make_variant,
    own_estimator,
    your_daemon,
)
from radrm.experiments.traces import save_trace
from radrm.simulator.scenario import ORACLE
from radrm.simulator.servers import HASH

TraceFile = Annotated[
    str | None, typer.Argument(metavar="TRACE", help="A trace file; - for standard input.")
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", metavar="NAME", help="The policy; by default the configured one."),
]
Save = Annotated[
    str | None, typer.Option("--save", metavar="FILE", help="Write the trace as radrm's CSV.")
]


def simulate(
    trace: TraceFile = None,
    policy: Policy = None,
    gpus: options.SomeGpus = None,
    cpus: options.Cpus = None,
    order: options.Order = None,
    planner: options.Planner = None,
    estimator: options.Estimator = None,
    known: options.Known = None,
    duration_error: options.DurationError = None,
    collocation: options.Mode = None,
    recovery: options.Recovery = None,
    fidelity: options.FidelityOption = "radrm",
    seeds: options.Seeds = 1,
    settings: options.Set = None,
    servers: options.Servers = 1,
    dealer: options.Dealer = HASH,
    form: options.MixForm = "auto",
    profile: options.Profile = None,
    fill: options.FillTable = None,
    fill_seed: options.FillSeed = 0,
    users: options.Users = None,
    scenario: options.Scenario = None,
    nodes: options.Nodes = None,
    load: options.Load = None,
    seed: options.FirstSeed = None,
    plot: options.PlotFile = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Run a trace on a simulated server and show the result.

    Without options the server is your daemon as configured, and nobody declares anything.

    \b
    Examples:
      radrm simulate trace.csv --policy magm --seeds 12
      radrm simulate trace.csv --policy lug --set policy.max_smact=0.75 --plot run.png
      radrm simulate --import andreas --nodes 10 --load 0.5 --planner andreas
      sacct -P -a -S 2024-01-01 -o ... | radrm simulate - --import slurm
    """
    check_plot(plot)
    mix = mix_of(
        *(trace, form),
        scenario=scenario,
        nodes=nodes,
        load=load,
        seed=seed,
        gpus=gpus,
        servers=servers,
    )
    base = configured()
    choices = Choices(
        *(gpus or options.USUAL_GPUS, order, planner, collocation, recovery, fidelity, seeds),
        *(settings or (), options.known_names(known, duration_error), servers),
        cpus=cpus,
        dealer=dealer,
    )
    if mix is not None:
        base, choices = with_mix_settings(mix, base, choices)
    estimator = estimator or (ORACLE if mix else own_estimator(base, fidelity))
    variant = make_variant(base, policy or (ALONE if mix else base.policy), estimator, choices)
    check_settings(choices.settings, [variant.policy])
    source = mix or File(trace or "-", form, tuple(profile or ()), fill, fill_seed, users)
    loaded = load_draws(source, variant, seeds)
    for note in loaded.notes:
        warn(note)
    if save is not None:
        save_trace(save, loaded.whole)
    with progress_bar() as progress:
        (result,) = results_of_draws(
            loaded.draws, [variant], range(seeds), plot is not None, progress
        )
    if as_json:
        print_json(document(result, loaded.left_out))
    else:
        show(
            Styled(
                setting_line(variant, your_daemon(base, own_estimator(base), Choices(choices.gpus)))
            )
        )
        show(heading(result))
        show(one_table(result))
    if line := unfinished_line([result]):
        warn(line)
    if plot is not None and result.run is not None:
        plot_run(plot, result.run, f"{variant.policy}, {estimator}")
