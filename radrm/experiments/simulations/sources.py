"""The jobs of a simulation: from a trace file, or drawn anew for each seed (`mixes`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from radrm.config import Config
from radrm.experiments.simulations.mixes import KNOWN, LIFE, mix_draws, with_mix
from radrm.experiments.simulations.runs import Draws, capacities_mib
from radrm.experiments.simulations.variants import Choices, Variant
from radrm.experiments.traces import load_trace
from radrm.simulator.traces.draw import dealt
from radrm.simulator.traces.importers.andreas import Mix
from radrm.simulator.traces.job import TraceJob
from radrm.simulator.traces.trace import fitting


@dataclass(frozen=True, slots=True)
class File:
    """A trace file, its form, what fills in what it lacks, and the users to deal its jobs to."""

    path: str
    form: str = "auto"
    profiles: tuple[str, ...] = ()
    fill: str | None = None
    fill_seed: int = 0
    users: int | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
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


def load_draws(source: File | Mix, variant: Variant, seeds: int) -> Loaded:
    """The jobs for these many seeds, as far as they fit the servers. Raises `RadrmError`."""
    if isinstance(source, Mix):
        traces = mix_draws(source, variant.scenario.config, seeds)
        return Loaded([trace.jobs for trace in traces], traces[0].jobs, (source.note(seeds),))
    trace = load_trace(source.path, source.form, source.profiles, source.fill, source.fill_seed)
    devices = variant.scenario.devices
    several = len({each.device.node for each in devices}) > 1
    jobs = trace.jobs if source.users is None else dealt(trace.jobs, source.users)
    fit = fitting(jobs, capacities_mib(devices), several)
    return Loaded([fit.jobs], jobs, (*trace.notes, *fit.notes))
