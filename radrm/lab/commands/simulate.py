"""`radrm simulate` and `compare`: a trace on a simulated server, under one policy or several."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from radrm.cli.parameters import JSON, TEXT, TEXTS, WORD, Parameter
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json, warn
from radrm.errors import UsageError
from radrm.lab import options
from radrm.lab.experiments.simulations.advice import advice_document, variants_to_try
from radrm.lab.experiments.simulations.advice import advise as find_advice
from radrm.lab.experiments.simulations.advice import objective as objective_of
from radrm.lab.experiments.simulations.runs import document, results
from radrm.lab.experiments.simulations.sources import (
    ORDERS,
    File,
    Loaded,
    load_draws,
    mix_of,
    save_trace,
    with_mix_settings,
)
from radrm.lab.experiments.simulations.sources import SORTING as MIX_SORTING
from radrm.lab.experiments.simulations.variants import (
    ALONE,
    SORTING,
    Choices,
    Variant,
    check_settings,
    compared_variants,
    configured,
    make_variant,
    own_estimator,
    your_daemon,
)
from radrm.lab.show.advice import show_advice
from radrm.lab.show.progress import progress_bar
from radrm.lab.show.simulations import (
    FOOT,
    compared_table,
    heading,
    one_table,
    others_line,
    same_line,
    setting_line,
    unfinished_line,
    variant_name,
)
from radrm.lab.simulator.scenario import ORACLE
from radrm.lab.simulator.traces.importers.andreas import Mix
from radrm.policies import POLICIES
from radrm.structs import replace

_TRACE = Parameter("trace", WORD, "A trace file; - for standard input.", "TRACE")
_MIX = (options.SCENARIO, options.NODES, options.LOAD, options.FIRST_SEED)
SIMULATE_PARAMETERS = (
    *(_TRACE, options.POLICY, options.GPUS, options.CPUS, options.ORDER, options.PLANNER),
    *(options.ESTIMATOR, options.KNOWN, options.MODE, options.RECOVERY),
    *(options.FIDELITY, options.seeds(1), options.SET, options.SERVERS, options.DEALER),
    *(options.MIX_FORM, options.PROFILE, options.FILL, options.FILL_SEED, options.USERS, *_MIX),
    Parameter("save", TEXT, "Write the trace as radrm's CSV.", "FILE", ("--save",)),
    JSON,
)


class _Given(Struct, frozen=True, kw_only=True):
    """What `simulate` and `compare` are both told."""

    trace: str
    gpus: str
    cpus: float | None
    known: list[str]
    collocation: str
    recovery: str
    fidelity: str
    settings: list[str]
    servers: int
    dealer: str
    form: str
    profile: list[str]
    fill: str
    fill_seed: int
    users: int | None
    scenario: int | None
    nodes: int | None
    load: float | None
    seed: int | None
    as_json: bool

    def mix(self) -> Mix | None:
        """The published mix of jobs, instead of a trace file. Raises `UsageError`."""
        return mix_of(
            *(self.trace or None, self.form),
            scenario=self.scenario,
            nodes=self.nodes,
            load=self.load,
            seed=self.seed,
            gpus=self.gpus or None,
            servers=self.servers,
        )

    def file(self) -> File:
        """The trace file, and what completes it."""
        given = self.form, tuple(self.profile), self.fill or None, self.fill_seed, self.users
        return File(self.trace or "-", *given)

    def choices(self, seeds: int, order: str | None, planner: str | None) -> Choices:
        """The choices for all variants. Raises `UsageError`."""
        return Choices(
            gpus=self.gpus or options.USUAL_GPUS,
            order=order or None,
            planner=planner or None,
            collocation=self.collocation or None,
            recovery=self.recovery or None,
            fidelity=self.fidelity,
            seeds=seeds,
            settings=self.settings,
            known=options.names(self.known),
            servers=self.servers,
            cpus=self.cpus,
            dealer=self.dealer,
        )


def simulate(
    policy: str,
    order: str,
    planner: str,
    estimator: str,
    seeds: int,
    save: str,
    **shared: Any,
) -> None:
    """Run a trace on a simulated server and show the result.

    Without options the server is your daemon as configured, and nobody declares anything.

    \b
    Examples:
      radrm simulate trace.csv --policy magm --seeds 12
      radrm simulate trace.csv --policy lug --set policy.max_smact=0.75
      radrm simulate --import andreas --nodes 10 --load 0.5 --planner andreas
      sacct -P -a -S 2024-01-01 -o ... | radrm simulate - --import slurm
    """
    given = _Given(**shared)
    mix = given.mix()
    base = configured()
    choices = given.choices(seeds, order, planner)
    if mix is not None:
        base, choices = with_mix_settings(mix, base, choices)
    estimator = estimator or (ORACLE if mix else own_estimator(base, given.fidelity))
    variant = make_variant(base, policy or (ALONE if mix else base.policy), estimator, choices)
    check_settings(choices.settings, [variant.policy])
    loaded = _load(mix or given.file(), variant, seeds)
    if save:
        save_trace(save, loaded.whole)
    with progress_bar() as progress:
        (result,) = results(loaded.draws, [variant], range(seeds), progress)
    if given.as_json:
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


_ESTIMATORS = "As for simulate: repeat it, or use a,b."
COMPARE_PARAMETERS = (
    *(_TRACE, options.POLICIES, options.GPUS, options.CPUS, options.ORDERS, options.PLANNERS),
    Parameter("estimator", TEXTS, _ESTIMATORS, "NAME", ("--estimator",)),
    *(options.KNOWN, options.MODE, options.RECOVERY, options.FIDELITY),
    *(options.seeds(None), options.ADVISE, options.OBJECTIVE, options.SET, options.SERVERS),
    *(options.DEALER, options.MIX_FORM, options.PROFILE, options.FILL, options.FILL_SEED),
    *(options.USERS, *_MIX, JSON),
)
_ADVICE_SEEDS = 6


def compare(
    policy: list[str],
    order: list[str],
    planner: list[str],
    estimator: list[str],
    seeds: int | None,
    advise: bool,
    objective: str,
    **shared: Any,
) -> None:
    """Run a trace as configured here, and under several policies, beside lower bounds.

    \b
    Examples:
      radrm compare trace.csv --seeds 12
      radrm compare trace.csv --policy magm,lug --estimator none,horus
      radrm compare trace.csv --advise --objective makespan
      radrm compare --import andreas --scenario 1 --nodes 10 --load 0.5 --seeds 12
    """
    given = _Given(**shared)
    metric = objective_of(objective)
    seeds = seeds or (_ADVICE_SEEDS if advise else 1)
    base = configured()
    mix = given.mix()
    if mix is not None and advise:
        raise UsageError(f"--advise measures no due times; leave out --import {given.form}")
    orders = options.names(order) or list(ORDERS if mix else ())
    choices = given.choices(seeds, next(iter(orders), None), None)
    if mix is not None:
        base, choices = with_mix_settings(mix, base, choices)
    source = mix or given.file()
    estimators = options.names(estimator)
    if advise:
        (own,) = _at_most_one(estimators) or [own_estimator(base, given.fidelity)]
        plan = "+".join(options.names(planner)) or None
        present = make_variant(base, base.policy, own, replace(choices, planner=plan))
        check_settings(choices.settings, [present.policy, *POLICIES])
        draws = _load(source, present, 1).draws
        tried = variants_to_try(base, present, choices, options.names(policy))
        with progress_bar() as progress:
            advice = find_advice(draws, present, *tried, metric, seeds, progress)
        if given.as_json:
            print_json(advice_document(advice))
        else:
            show_advice(advice, "Ranges: about 95% intervals of the mean.")
        return
    variants = compared_variants(
        base,
        options.names(policy) or ([ALONE] if mix else list(POLICIES)),
        estimators or ([ORACLE] if mix else []),
        choices,
        options.names(planner),
        orders,
        MIX_SORTING if mix else SORTING,
        yours=mix is None,
    )
    loaded = _load(source, variants[0], seeds)
    with progress_bar() as progress:
        found = results(loaded.draws, variants, range(seeds), progress=progress)
    if given.as_json:
        print_json([document(result, loaded.left_out) for result in found])
    else:
        yours = your_daemon(base, own_estimator(base), Choices(choices.gpus))
        show(Styled(setting_line(variants[0], yours)))
        if others := others_line(variants):
            show(Styled(others))
        show(compared_table(found))
        if same := same_line(found):
            show(Styled(same))
        first = variant_name(found[0], found)
        show(Styled(f"{len(loaded.draws[0])} jobs; in percent: of {first}. {FOOT}"))
    if line := unfinished_line(found):
        warn(line)


def _load(source: File | Mix, variant: Variant, seeds: int) -> Loaded:
    """The jobs that fit the servers; warns about the others."""
    with progress_bar("bytes") as progress:
        loaded = load_draws(source, variant, seeds, progress)
    for note in loaded.notes:
        warn(note)
    return loaded


def _at_most_one(estimators: list[str]) -> list[str]:
    if len(estimators) > 1:
        raise UsageError(f"--advise takes one --estimator, not {len(estimators)}; name one")
    return estimators
