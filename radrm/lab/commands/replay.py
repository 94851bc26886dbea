"""`radrm replay`: run the daemon's own past jobs under other policies."""

from __future__ import annotations

from radrm.cli.parameters import JSON, TEXT, Parameter
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json
from radrm.lab import options
from radrm.lab.experiments.simulations.advice import advice_document, variants_to_try
from radrm.lab.experiments.simulations.advice import advise as find_advice
from radrm.lab.experiments.simulations.advice import objective as objective_of
from radrm.lab.experiments.simulations.past import (
    drawn_past,
    own_estimator,
    own_gpus,
    own_mode,
    past_document,
    past_jobs,
    replay_past,
    wide_range,
)
from radrm.lab.experiments.simulations.sources import save_trace
from radrm.lab.experiments.simulations.variants import (
    Choices,
    check_settings,
    configured,
    make_variant,
    with_planners,
    your_daemon,
)
from radrm.lab.show.advice import show_advice
from radrm.lab.show.progress import progress_bar
from radrm.lab.show.replay import RANGES, caveats, show_replay
from radrm.lab.show.simulations import setting_line
from radrm.policies import POLICIES
from radrm.structs import replace

_BEFORE = "Compare with this policy; by default the configured one."
REPLAY_PARAMETERS = (
    Parameter(
        *("since", TEXT, "Only jobs of this last time: 30d, 12h.", "SPAN", ("--since",)),
        initial="30d",
    ),
    options.POLICIES,
    Parameter("instead_of", TEXT, _BEFORE, "NAME", ("--instead-of",)),
    Parameter("gpus", TEXT, "The GPUs; by default those of the daemon.", "sim:SPEC", ("--gpus",)),
    *(options.ORDER, options.PLANNERS),
    Parameter(
        *("estimator", TEXT, "recorded (by default), oracle or none.", "NAME", ("--estimator",))
    ),
    *(options.KNOWN, options.MODE, options.RECOVERY, options.seeds(12)),
    *(options.ADVISE, options.OBJECTIVE, options.SET),
    Parameter("store", TEXT, "A daemon's store, or a copy of it.", "FILE", ("--store",)),
    Parameter("save", TEXT, "Write the jobs as a trace.", "FILE", ("--save",)),
    JSON,
)


def replay(
    since: str,
    policy: list[str],
    instead_of: str,
    gpus: str,
    order: str,
    planner: list[str],
    estimator: str,
    known: list[str],
    collocation: str,
    recovery: str,
    seeds: int,
    advise: bool,
    objective: str,
    settings: list[str],
    store: str,
    save: str,
    as_json: bool,
) -> None:
    """Run the daemon's own past jobs under other policies.

    \b
    Examples:
      radrm replay
      radrm replay --since 7d --policy lug --seeds 12
      radrm replay --advise
      radrm replay --store copy.sqlite --gpus sim:4xA100-40GB --json
    """
    metric = objective_of(objective)
    past = past_jobs(store or None, since)
    base = configured()
    before = instead_of or base.policy
    chosen = estimator or own_estimator(past)
    choices = Choices(
        gpus=gpus or own_gpus(past),
        order=order or None,
        collocation=collocation or (own_mode(base, past) if store else None),
        recovery=recovery or None,
        seeds=seeds,
        settings=settings,
        known=options.names(known),
    )
    if advise:
        plan = "+".join(options.names(planner)) or None
        present = make_variant(base, before, chosen, replace(choices, planner=plan))
        check_settings(choices.settings, [present.policy, *POLICIES])
        tried = variants_to_try(base, present, choices, options.names(policy))
        facts, (_, *draws) = drawn_past(past, present, 2 * seeds)
        with progress_bar() as progress:
            advice = find_advice(draws, present, *tried, metric, seeds, progress, wide_range)
        if as_json:
            print_json(advice_document(advice))
        else:
            show_advice(advice, RANGES)
            for line in caveats(facts, len(draws[0])):
                show(Styled(line))
        return
    others = [name for name in options.names(policy) or POLICIES if name != before]
    check_settings(choices.settings, [before, *others])
    first, *rest = with_planners(choices, options.names(planner))
    pairs = [(before, first), *((name, first) for name in others)]
    pairs += [(name, plan) for plan in rest for name in (before, *others)]
    variants = [make_variant(base, name, chosen, plan) for name, plan in pairs]
    yours = your_daemon(base, chosen, Choices(choices.gpus))
    with progress_bar() as progress:
        done = replay_past(past, variants, seeds, progress)
    if save:
        save_trace(save, done.jobs)
    if as_json:
        print_json(past_document(done, since))
    else:
        show(Styled(setting_line(variants[0], yours)))
        show_replay(done, since)
