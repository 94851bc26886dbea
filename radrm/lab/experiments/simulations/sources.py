"""The jobs of a simulation: read from files, or drawn from the published mix."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any, TextIO

from msgspec import Struct

from radrm.config import Config
from radrm.config.shapes import EnergyConfig
from radrm.errors import BadFile, UsageError, plain
from radrm.lab.experiments.simulations.runs import Draws, Progress, capacities_mib, silent
from radrm.lab.experiments.simulations.variants import Choices, Variant
from radrm.lab.simulator.scenario import Life
from radrm.lab.simulator.traces.draw import Fill, dealt, read_fill
from radrm.lab.simulator.traces.importers.aids import Aids, Alone, joined, read_profile
from radrm.lab.simulator.traces.importers.andreas import (
    CURRENCY,
    FEWEST_NODES,
    FORM,
    MOST_LOAD,
    MOST_NODES,
    NODE_WATTS,
    PRICE,
    PUE,
    SCENARIOS,
    Mix,
    published_mix,
)
from radrm.lab.simulator.traces.importers.forms import read_any
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.trace import Trace, fitting, trace_lines
from radrm.structs import replace

_LINES_TOLD = 1000
_PIECE = 1 << 17
"""A longer line is read in pieces, each of which is too long for a trace and is refused."""


class File(Struct, frozen=True):
    """A trace file, its form, what fills in what it lacks, and the users to deal its jobs to."""

    path: str
    form: str = "auto"
    profiles: tuple[str, ...] = ()
    fill: str | None = None
    fill_seed: int = 0
    users: int | None = None


def load_trace(source: File, progress: Progress = silent) -> Trace:
    """The trace in a file, `-` for standard input. Raises `RadrmError`.

    `progress` is called with the length that is read, and that of the file; not for standard
    input, whose length is unknown."""
    profile = joined(_profile(each) for each in source.profiles)
    aids = Aids(profile=profile, fill=_fill(source.fill, source.fill_seed))
    with _lines(source.path, progress) as lines:
        return read_any(lines, _called(source.path), source.form, aids)


def save_trace(path: str, jobs: tuple[TraceJob, ...]) -> None:
    """Write jobs as radrm's own CSV. Raises `BadFile`."""
    try:
        with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
            file.writelines(trace_lines(jobs))
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}") from None


def _profile(path: str) -> dict[str, Alone]:
    with _lines(path) as lines:
        return read_profile(lines, _called(path))


def _fill(path: str | None, seed: int) -> Fill:
    if path is None:
        return Fill(seed=seed)
    with _lines(path) as lines:
        return read_fill(lines, _called(path), seed)


def _called(path: str) -> str:
    return "standard input" if path == "-" else plain(os.path.basename(path) or path)


@contextmanager
def _lines(path: str, progress: Progress = silent) -> Iterator[Iterator[str]]:
    try:
        if path == "-":
            yield _pieces(sys.stdin)
            return
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            yield _counted(_pieces(file), os.fstat(file.fileno()).st_size, progress)
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from None


def _counted(lines: Iterator[str], size: int, progress: Progress) -> Iterator[str]:
    length = 0
    for number, line in enumerate(lines):
        length += len(line)
        if not number % _LINES_TOLD:
            progress(min(length, size), size)
        yield line


def _pieces(file: TextIO) -> Iterator[str]:
    while line := file.readline(_PIECE):
        yield line


LIFE = Life(start_up_s=0.0, ramp_s=0.0, hold_s=0.0, spread=0.0, work_sd=0.0)
KNOWN = ("duration",)
"""What is known of each job without `--known`: the paper profiles every job."""
ORDERS = ("fifo", "due", "weight")
"""The orders that the paper compares with: FIFO, EDF and PS."""
SORTING = ("andreas", "deadline")
"""The planners that sort jobs with due times themselves: all jobs of a mix have one."""


def mix_of(
    trace: str | None,
    form: str,
    *,
    scenario: int | None,
    nodes: int | None,
    load: float | None,
    seed: int | None,
    gpus: str | None,
    servers: int,
) -> Mix | None:
    """The mix that a command's options ask for; None: they ask for another trace.

    Raises `UsageError`.
    """
    given = {"--scenario": scenario, "--nodes": nodes, "--load": load, "--seed": seed}
    if form != FORM:
        if only := [name for name, value in given.items() if value is not None]:
            raise UsageError(f"{only[0]} belongs to --import {FORM}; add that or leave it out")
        if trace is None:
            raise UsageError(f"name a trace file, or draw jobs with --import {FORM}")
        return None
    if trace is not None:
        raise UsageError(f"--import {FORM} draws its jobs and reads no file; leave out {trace!r}")
    if gpus is not None or servers != 1:
        what = "--gpus" if gpus is not None else "--servers"
        raise UsageError(f"--import {FORM} sets the servers; use --nodes in place of {what}")
    asked: dict[str, Any] = {
        name.removeprefix("--"): value for name, value in given.items() if value is not None
    }
    mix = Mix(**asked)
    if mix.scenario not in SCENARIOS:
        raise UsageError(
            f"--scenario {mix.scenario}: there are 1 (nodes of 2 V100 or 1 T4) and 2 (4 or 2)"
        )
    if not FEWEST_NODES <= mix.nodes <= MOST_NODES:
        raise UsageError(
            f"--nodes {mix.nodes} is not from {FEWEST_NODES} to {MOST_NODES}; write --nodes 10"
        )
    if not (isfinite(mix.load) and 0 < mix.load <= MOST_LOAD):
        raise UsageError(
            f"--load {mix.load:g} is not above 0 and at most {MOST_LOAD:g}; write --load 0.5"
        )
    if mix.seed < 0:
        raise UsageError(f"--seed {mix.seed} is below 0; write --seed 1")
    return mix


def with_mix(config: Config) -> Config:
    """The configuration with the published price and power."""
    energy = EnergyConfig(
        price=PRICE,
        pue=PUE,
        currency=CURRENCY,
        node_watts=NODE_WATTS,
        wait_for_cheap=config.energy.wait_for_cheap,
    )
    return dataclasses.replace(config, energy=energy)


def mix_draws(mix: Mix, config: Config, count: int) -> list[Trace]:
    """Draw the jobs of `count` seeds. Raises `UsageError`."""
    cost = config.deadlines.cost_per_hour
    if not cost > 0:
        raise UsageError(
            f"--import {FORM} divides its weights by deadlines.cost_per_hour, which is {cost:g}; "
            "set it above 0"
        )
    return [published_mix(replace(mix, seed=mix.seed + at), cost) for at in range(count)]


class Loaded(Struct, frozen=True):
    """The jobs that fit the servers, by seed. `whole`: all jobs of the first seed."""

    draws: Draws
    whole: tuple[TraceJob, ...]
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> int:
        """The number of jobs that fit no server."""
        return len(self.whole) - len(self.draws[0])


def with_mix_settings(mix: Mix, base: Config, choices: Choices) -> tuple[Config, Choices]:
    """The configuration and the choices for a mix. What the user chose stays."""
    known = choices.known or KNOWN
    return with_mix(base), replace(choices, gpus=mix.spec, known=known, life=LIFE)


def load_draws(
    source: File | Mix, variant: Variant, seeds: int, progress: Progress = silent
) -> Loaded:
    """The jobs for these many seeds, as far as they fit the servers; `progress` as in `load_trace`.

    Raises `RadrmError`."""
    if isinstance(source, Mix):
        traces = mix_draws(source, variant.scenario.config, seeds)
        return Loaded([trace.jobs for trace in traces], traces[0].jobs, (source.note(seeds),))
    trace = load_trace(source, progress)
    devices = variant.scenario.devices
    several = len({each.device.node for each in devices}) > 1
    jobs = trace.jobs if source.users is None else dealt(trace.jobs, source.users)
    fit = fitting(jobs, capacities_mib(devices), several)
    return Loaded([fit.jobs], jobs, (*trace.notes, *fit.notes))
