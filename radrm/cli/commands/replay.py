"""`radrm replay`: the daemon's own past under other policies."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.text import Text

from radrm.cli import simulations as options
from radrm.cli.commands.compare import words
from radrm.cli.options import Json
from radrm.cli.show.plots import check_plot, plot_comparison
from radrm.cli.show.render import out
from radrm.cli.show.simulations import FOOT, compared_table, document, unfinished_line
from radrm.cli.simulations import (
    Choices,
    Result,
    Variant,
    capacities_mib,
    check_settings,
    configured,
    make_variant,
    results,
)
from radrm.client.connection import Client
from radrm.client.text import Document, print_json, warn
from radrm.config import Config
from radrm.core.units import parse_seconds, show_seconds
from radrm.core.words import Collocation, Quantity
from radrm.errors import BadFile, RadrmError, UsageError, plain
from radrm.experiments.traces import save_trace
from radrm.host.storage.history import read_past
from radrm.host.storage.paths import client_paths
from radrm.policies import POLICIES
from radrm.simulator.job import TraceJob
from radrm.simulator.metrics import Change, gain, over_seeds
from radrm.simulator.past import RECORDED, Assumption, Past, Replayed, assumptions, replayed
from radrm.simulator.trace import fitting

_FAR_OFF = 0.25
"""Where the model differs from the record by more, its word is not worth much."""
_TYPE = re.compile(r"\b(A100|A10|A30|A40|H100|H200|L40S|L4|T4|V100|P100|RTX ?A?\d{4})\b")

Since = Annotated[str, typer.Option("--since", metavar="SPAN", help="Jobs of so long: 30d, 12h.")]
Instead = Annotated[
    str | None,
    typer.Option("--instead-of", metavar="NAME", help="What they are compared with; as set."),
]
StoreFile = Annotated[
    str | None, typer.Option("--store", metavar="FILE", help="A daemon's store, or a copy of it.")
]
OwnGpus = Annotated[
    str | None,
    typer.Option("--gpus", metavar="sim:SPEC", help="The server; the daemon's if left out."),
]
OwnEstimator = Annotated[
    str | None,
    typer.Option("--estimator", metavar="NAME", help="recorded (if left out), oracle or none."),
]
Save = Annotated[
    str | None, typer.Option("--save", metavar="FILE", help="Write the jobs as a trace.")
]


@dataclass(frozen=True, slots=True)
class _Level:
    """The past under one assumption of what is unknown, and what came of it."""

    assumed: Assumption
    past: Replayed
    jobs: tuple[TraceJob, ...]
    found: list[Result]


def replay(
    since: Since = "30d",
    policy: options.Policies = None,
    instead_of: Instead = None,
    gpus: OwnGpus = None,
    order: options.Order = None,
    planner: options.Planner = None,
    estimator: OwnEstimator = None,
    smact_known: options.SmactKnown = False,
    collocation: options.Mode = None,
    recovery: options.Recovery = None,
    seeds: options.Seeds = 5,
    settings: options.Set = None,
    store: StoreFile = None,
    plot: options.PlotFile = None,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Tell what the daemon's own past jobs would have come to under other policies.

    \b
    Examples:
      radrm replay
      radrm replay --since 7d --policy lug --seeds 12
      radrm replay --store copy.sqlite --gpus sim:4xA100-40GB --json
    """
    check_plot(plot)
    past = _past(store, since)
    base = configured()
    before = instead_of or base.policy
    told = estimator or _told(past)
    choices = Choices(
        gpus=gpus or _own_gpus(past),
        order=order,
        planner=planner,
        collocation=collocation or _own_mode(base, past),
        recovery=recovery,
        seeds=seeds,
        settings=settings or (),
        smact_known=smact_known,
    )
    others = [name for name in words(policy) or POLICIES if name != before]
    check_settings(choices.settings, [before, *others])
    variants = [make_variant(base, name, told, choices) for name in (before, *others)]
    levels = _levels(past, variants, seeds)
    middle = levels[len(levels) // 2]
    if save is not None:
        save_trace(save, middle.jobs)
    if as_json:
        print_json(_document(levels, middle, since))
    else:
        _tell(levels, middle, since)
    if plot is not None:
        plot_comparison(plot, middle.found)


def _past(store: str | None, since: str) -> list[Past]:
    try:
        span_s = parse_seconds(since)
    except ValueError as error:
        raise UsageError(f"--since: {error}") from None
    path = store or _database()
    found = [Past(job, made) for job, made in read_past(path, time.time() - span_s)]
    if not found:
        raise BadFile(f"the store {path} holds no job of the last {since}; try a longer --since")
    return found


def _database() -> str:
    places = [paths.database for paths in client_paths(os.environ, os.getuid())]
    return next((path for path in places if os.path.exists(path)), places[0])


def _told(past: Sequence[Past]) -> str:
    return (
        RECORDED
        if any(e.quantity is Quantity.MEMORY for p in past for e in p.job.estimates)
        else "none"
    )


def _own_mode(config: Config, past: Sequence[Past]) -> str:
    """How jobs shared GPUs then; as configured where none did."""
    seen = {a.placement.collocation for each in past for a in each.attempts}
    if Collocation.MPS in seen:
        return "mps"
    if Collocation.TIMESLICE in seen:
        return "timeslice"
    if config.collocation is not Collocation.AUTO:
        return str(config.collocation.value)
    return "mps" if config.mps.enabled else "timeslice"


def _own_gpus(past: Sequence[Past]) -> str:
    """The server's GPUs as the daemon shows them. Raises `UsageError` where none answers."""
    try:
        with Client() as client:
            devices: list[Document] = client.ask("gpus")
    except RadrmError:
        used = {d for each in past for a in each.attempts for d in a.placement.devices}
        raise UsageError(
            f"no daemon answers, so the server's GPUs (its jobs used {len(used)}) are not known; "
            "add --gpus, as in --gpus=sim:4xA100-40GB"
        ) from None
    if not devices or any(device["kind"] != "gpu" for device in devices):
        raise UsageError("the server's GPUs are cut into MIG instances: say them with --gpus")
    return "sim:" + ",".join(f"1x{_kind(device)}" for device in devices)


def _kind(device: Document) -> str:
    found = _TYPE.search(str(device["name"]))
    name = str(found[1]).replace(" ", "") if found else "GPU"
    return f"{name}-{max(1, round(device['total_mib'] / 1024))}GB"


# ------------------------------------------------------------------ running


def _levels(past: Sequence[Past], variants: Sequence[Variant], seeds: int) -> list[_Level]:
    """Simulated once for each assumption of the SM activity that nobody knows."""
    now_s = time.time()
    levels = []
    for assumed in assumptions(past):
        known = replayed(past, assumed, now_s)
        if not known.jobs:
            why = ", ".join(f"{count} {reason}" for reason, count in known.left_out.items())
            raise BadFile(f"none of {len(past)} jobs can be replayed: {why}")
        fit = fitting(known.jobs, capacities_mib(variants[0].scenario.devices))
        levels.append(_Level(assumed, known, fit.jobs, results(fit.jobs, variants, seeds)))
    return levels


def _gain(levels: Sequence[_Level], at: int) -> Change | None:
    """How much sooner jobs end with variant `at` than with the first: over all seeds and
    assumptions, the middle assumption's mean and the widest interval."""
    changes = []
    for level in levels:
        own = [m.mean_jct_s for m in level.found[at].runs]
        first = [m.mean_jct_s for m in level.found[0].runs]
        if None in own or None in first:
            return None
        changes.append(gain([v or 0.0 for v in own], [v or 0.0 for v in first]))
    known = [change for change in changes if change is not None]
    if not known or len(known) < len(changes):
        return None
    ends = [e for c in known for e in (c.gain, c.low, c.high) if e is not None]
    return Change(known[len(known) // 2].gain, min(ends), max(ends))


def _difference(level: _Level) -> float | None:
    """How far the model's completion time is from the recorded one, as a share of it."""
    simulated = over_seeds(level.found[0].runs)["mean_jct_s"].mean
    if simulated is None or not level.past.jct_s:
        return None
    return simulated / level.past.jct_s - 1


# ------------------------------------------------------------------ telling


def _document(levels: Sequence[_Level], middle: _Level, since: str) -> Document:
    policies = []
    for at, result in enumerate(middle.found):
        change = _gain(levels, at) if at else None
        policies.append(
            document(result)
            | {
                "sooner": None if change is None else change.gain,
                "sooner_low": None if change is None else change.low,
                "sooner_high": None if change is None else change.high,
            }
        )
    return {
        "since": since,
        "instead_of": middle.found[0].variant.policy,
        "jobs": len(middle.jobs),
        "left_out": {
            **middle.past.left_out,
            "fits no GPU": len(middle.past.jobs) - len(middle.jobs),
        },
        "shared": middle.past.shared,
        "slow_down": middle.past.slow_down,
        "smact_unknown": middle.past.assumed,
        "recorded_mean_jct_s": middle.past.jct_s,
        "recorded_mean_wait_s": middle.past.wait_s,
        "model_error": _difference(middle),
        "policies": policies,
    }


def _tell(levels: Sequence[_Level], middle: _Level, since: str) -> None:
    console = out()
    console.print(compared_table(middle.found))
    before = middle.found[0].variant.policy
    console.print(Text(f"in percent: of {plain(before)}. {FOOT}\n"))
    for at, result in enumerate(middle.found):
        if at:
            line = sentence(result.variant.policy, before, since, _gain(levels, at))
            console.print(Text(line))
    for line in caveats(middle.past, len(middle.jobs)):
        console.print(Text(line))
    difference = _difference(middle)
    if difference is not None and middle.past.jct_s is not None:
        recorded = show_seconds(middle.past.jct_s)
        console.print(
            Text(
                f"Under {plain(before)} the model's mean completion time is "
                f"{abs(difference):.0%} {'above' if difference > 0 else 'below'} the recorded "
                f"{recorded}."
            )
        )
        if abs(difference) > _FAR_OFF:
            warn(
                "the model is far from the record: do not rely on these figures; see --gpus, --set"
            )
    if line_ := unfinished_line(middle.found):
        warn(line_)


def sentence(policy: str, before: str, since: str, change: Change | None) -> str:
    """What one policy would have meant, with how sure that is."""
    said = f"With {plain(policy)} instead of {plain(before)} your jobs of the last {since} would"
    if change is None:
        return f"{said} have ended otherwise; by how much cannot be told."
    low = change.gain if change.low is None else change.low
    high = change.gain if change.high is None else change.high
    if low <= 0 <= high:
        return (
            f"{said} have finished about when they did "
            f"(from {abs(low):.0%} later to {high:.0%} sooner)."
        )
    word, (near, far) = ("sooner", (low, high)) if low > 0 else ("later", (-high, -low))
    return (
        f"{said} have finished {abs(change.gain):.0%} {word}"
        + (f" ({near:.0%} to {far:.0%})" if near < far else "")
        + "."
    )


def caveats(past: Replayed, jobs: int) -> list[str]:
    """What the figures rest on, a line each."""
    lines = [
        "Sooner or later: by mean completion time, over all seeds"
        + (" and assumptions." if past.assumed else ".")
    ]
    if past.assumed:
        lines.append(
            f"The SM activity of {past.assumed} of {len(past.jobs)} jobs is unknown (they were "
            "never alone): all was simulated with a low, a middle and a high guess of it."
        )
    if past.shared:
        lines.append(
            f"{past.shared} jobs shared a GPU; their times were corrected by the model, "
            f"{past.slow_down:.2f} times as long as alone on the mean."
        )
    left_out = dict(past.left_out)
    if jobs < len(past.jobs):
        left_out["too large for the GPUs"] = len(past.jobs) - jobs
    if left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
        lines.append(f"Left out: {why}.")
    return lines
