"""`radrm trace run`: play a trace through a daemon."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from radrm.cli.parameters import JSON, REAL, TEXT, TEXTS, WORD, Parameter
from radrm.cli.show.styled import Styled, show
from radrm.client.text import print_json, warn
from radrm.config import Config, resolved
from radrm.core.units import show_seconds
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
from radrm.lab.experiments.simulations.sources import File, load_trace
from radrm.lab.experiments.simulations.variants import (
    Choices,
    Variant,
    check_settings,
    configured,
    make_variant,
)
from radrm.lab.show.progress import progress_bar
from radrm.lab.show.replay import gains_table, played_table, unfinished_live
from radrm.lab.simulator.scenario import AUTO
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.trace import fitting
from radrm.simulated.spec import parse
from radrm.structs import replace

_TRACE = Parameter("trace", WORD, "A trace file; - for standard input.", "TRACE", least=1)
_SCALE = "Its clock is N times as fast, by default 60."
_ITS_POLICIES = "Its policies, a run each: repeat it, or use a,b,c."
_DECLARED = "Each job's declared memory: oracle (what the trace says), none, or a column NAME_mib."
_COMMAND = "Command of each job; {name} and others are filled in."
RUN_PARAMETERS = (
    _TRACE,
    Parameter("gpus", TEXT, "A private daemon on simulated GPUs.", "sim:SPEC", ("--gpus",)),
    Parameter("time_scale", REAL, _SCALE, "N", ("--time-scale",), least=1, most=10_000),
    Parameter("policy", TEXTS, _ITS_POLICIES, "NAME", ("--policy",)),
    *(options.ORDER, options.PLANNER, options.MODE, options.RECOVERY),
    Parameter("settings", TEXTS, "A setting, as policy.max_smact=0.75.", "KEY=VALUE", ("--set",)),
    Parameter("estimator", TEXT, _DECLARED, "NAME", ("--estimator",), initial="oracle"),
    options.KNOWN,
    Parameter("command", TEXT, _COMMAND, "CMD", ("--command",)),
    Parameter(
        *("jobs_dir", TEXT, "Folder with a job file NAME.rad per job.", "DIR", ("--jobs-dir",))
    ),
    *(options.FORM, options.PROFILE, options.FILL, options.FILL_SEED, JSON),
)


def run(
    trace: str,
    gpus: str,
    time_scale: float | None,
    policy: list[str],
    order: str,
    planner: str,
    collocation: str,
    recovery: str,
    settings: list[str],
    estimator: str,
    known: list[str],
    command: str,
    jobs_dir: str,
    form: str,
    profile: list[str],
    fill: str,
    fill_seed: int,
    as_json: bool,
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
    if estimator == AUTO:
        raise UsageError(
            "--estimator auto: a job declares a figure; choose none, and your daemon "
            "estimates by itself"
        )
    choices = Choices(
        gpus=gpus,
        order=order or None,
        planner=planner or None,
        collocation=collocation or None,
        recovery=recovery or None,
        settings=settings,
        known=options.names(known),
    )
    names = options.names(policy)
    loaded = load_trace(File(trace, form, tuple(profile), fill or None, fill_seed))
    for note in loaded.notes:
        warn(note)
    commands = Commands(jobs_dir or None, command or None, stand_ins=bool(gpus))
    if gpus:
        if command or jobs_dir:
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
