"""Ask the estimators about a job file, with what a daemon has learned if one answers."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from radrm.client.connection import Client
from radrm.config import Config, load_config
from radrm.core.records import Estimate, Profiled
from radrm.core.words import Quantity
from radrm.errors import BadFile, RadrmError
from radrm.estimators import ESTIMATORS
from radrm.estimators.interface import Description, PastRun
from radrm.estimators.learning.fingerprint import parts_of
from radrm.host.estimation.asking import SCRIPT, Answer, Asking, failed, with_trace
from radrm.host.estimation.commands import command_request, factory_request, fingerprint_of
from radrm.host.estimation.tracing import NotTraced, TraceRequest, trace
from radrm.host.storage.paths import system_mode
from radrm.host.storage.spool import Envelope
from radrm.host.storage.submission import envelope_of, load
from radrm.jobfile.options import Options, RawOptions
from radrm.jobfile.programs import may_train
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.jobfile.sweeps import array_of, sweep_of, with_values
from radrm.structs import replace
from radrm.wiring import asked_by_auto

TRACED = frozenset({"auto", "trace", "faketensor"})
RUN = frozenset({"auto", SCRIPT})
"""The estimators that use a trace of a factory, and of the job's own command."""


class Asked(Struct, frozen=True):
    """A job file as estimators see it. `device_mib`: the memory of the largest GPU of the server
    here; None without a daemon."""

    file: str
    options: Options
    job: Description
    notes: tuple[str, ...] = ()
    device_mib: int | None = None


class Learned(Struct, frozen=True):
    """What a daemon has learned; empty if no daemon answers."""

    device_kind: str | None = None
    device_mib: int | None = None
    driver: str | None = None
    contexts: dict[str, float] = field(default_factory=dict)
    same: tuple[PastRun, ...] = ()
    named: tuple[PastRun, ...] = ()
    recent: tuple[PastRun, ...] = ()
    profile: tuple[Profiled, ...] = ()


class Traceable(Struct, frozen=True):
    """How to trace a job's factory, and its own command; None: it has none, or asks for none.
    `why`: why its command cannot be traced."""

    factory: TraceRequest | None = None
    command: TraceRequest | None = None
    why: str = ""


def read(
    file: str, options: RawOptions, command: Sequence[str] = ()
) -> tuple[Asked, str, Traceable]:
    """The job, its fingerprint, and how to trace it. `command`: in place of a file.

    Raises `RadrmError`."""
    from radrm.wiring import describe

    if command:
        job_file, data = wrap_command(list(command), options), None
        file = job_file.name
        envelope = envelope_of(job_file, None, None, job_file.raw)
    else:
        data = load(file)
        job_file = read_job_file(data, file, options)
        envelope = envelope_of(job_file, file, data, options)
    job_file = job_file.with_summary(envelope.summary)
    asked = Asked(file, job_file.options, describe(job_file, envelope.environment))
    return asked, fingerprint_of(job_file, envelope), _traceable(job_file, envelope)


def _traceable(job_file: JobFile, envelope: Envelope) -> Traceable:
    """Of an array, its first element is traced."""
    options, array = job_file.options, array_of(job_file)
    if options.no_trace:
        return Traceable(why="the job asks for no trace (--no-trace)")
    factory = None if options.model_factory is None else factory_request(job_file, envelope)
    if not may_train(job_file):
        return Traceable(factory, why="it names no program that may train")
    if (sweep := sweep_of(job_file)) is not None:
        job_file = with_values(job_file, sweep.values(0))
    index = None if array is None else array.indices[0]
    return Traceable(factory, command_request(job_file, envelope, index))


def with_history(asked: Asked, mark: str, client: Client | None = None) -> Asked:
    """The job with what the daemon here, or that of `client`, has learned."""
    found = learned(mark, asked.job.spec.name, client)
    job = replace(
        asked.job,
        device_kind=found.device_kind,
        driver=found.driver,
        contexts=found.contexts,
        length=parts_of(mark)[1],
        same_runs=found.same,
        named_runs=found.named,
        recent_runs=found.recent,
        profile=found.profile,
    )
    return replace(asked, job=job, device_mib=found.device_mib)


def learned(mark: str | None, name: str | None = None, client: Client | None = None) -> Learned:
    """The recorded runs with a fingerprint or of a name, and the latest of all; none without a
    daemon."""
    with contextlib.nullcontext(client) if client is not None else Client() as asked:
        try:
            return msgspec.convert(asked.ask("runs", fingerprint=mark, name=name), Learned)
        except (RadrmError, msgspec.ValidationError):
            return Learned()


def known(job_file: JobFile, envelope: Envelope, client: Client) -> Estimate | None:
    """The memory that a daemon knows at once of a job, as at its submission; None for nothing.

    No estimator runs in another process, and nothing is traced. Raises `RadrmError`.
    """
    from radrm.wiring import describe

    config = config_of(client)
    asked = Asked(job_file.name, job_file.options, describe(job_file))
    job = with_history(asked, fingerprint_of(job_file, envelope), client).job
    found = Asking(config, summaries=False).at_once(job)
    return next((each for each in found if each.quantity is Quantity.MEMORY), None)


def config_of(client: Client | None = None) -> Config:
    """The configuration in force: of the daemon's home that a client names, else as commands find
    it. Raises `BadConfig`."""
    home = None if client is None else client.home
    environ = os.environ if home is None else {**os.environ, "RADRM_HOME": home}
    return load_config(environ, system_mode(environ, os.getuid()))


def answers(
    asked: Asked,
    mark: str,
    ways: Traceable,
    names: Sequence[str],
    config: Config,
    client: Client | None = None,
) -> tuple[Asked, dict[str, Answer]]:
    """The job with all that is known of it, and what each of these estimators says of it.

    A model or the command is traced if an estimator needs that. Raises `RadrmError`.
    """
    asked = with_history(asked, mark, client)
    request = to_trace(asked, ways, names, config)
    if request is not None and asked.job.trace is None:
        asked = traced(asked, request, config)
    found = {name: answer(asked, config, name) for name in names}
    if ways.why and RUN & set(names) and not any(map(memory_of, found.values())):
        asked = replace(asked, notes=(*asked.notes, failed(SCRIPT, ways.why)))
    return asked, found


def to_trace(
    asked: Asked, ways: Traceable, names: Sequence[str], config: Config
) -> TraceRequest | None:
    """What these estimators need to be traced. The command runs only where nothing better is
    known of the job, unless its estimator is named."""
    if ways.factory is not None and TRACED & set(names):
        return ways.factory
    if ways.command is None or not RUN & set(names):
        return None
    if SCRIPT not in names:
        found = Asking(config, summaries=False).at_once(asked.job)
        known = any(each.quantity is Quantity.MEMORY for each in found)
        if known or asked.job.summary or asked.job.published:
            return None
    return ways.command


def traced(asked: Asked, request: TraceRequest, config: Config) -> Asked:
    """The job with its trace, or with a note on why there is none."""
    request = replace(request, device_mib=asked.device_mib)
    try:
        events = trace(request, config.estimation, own=True)
    except NotTraced as error:
        return replace(asked, notes=(*asked.notes, failed(request.source, str(error))))
    job, cause = with_trace(asked.job, events, request.source)
    return replace(asked, job=job, notes=(*asked.notes, *([cause] if cause else [])))


def answer(asked: Asked, config: Config, name: str) -> Answer:
    """The answer of one estimator about a job."""
    with_summary = asked.job.summary is not None
    return Asking(dataclasses.replace(config, estimator=name), with_summary).ask(asked.job)


def memory_of(found: Answer) -> Estimate | None:
    return first_of(found, Quantity.MEMORY)


def first_of(found: Answer, quantity: Quantity) -> Estimate | None:
    return next((e for e in found.estimates if e.quantity is quantity), None)


def names_of(word: str, config: Config) -> tuple[str, ...]:
    """The estimators that `--estimator` names. Raises `RadrmError` for an unknown one."""
    if word == "all":
        every = dict.fromkeys((*ESTIMATORS, *asked_by_auto(config)))
        return tuple(name for name in every if name != "none")
    Asking(dataclasses.replace(config, estimator=word), summaries=False)
    return (word,)


def one_shape(asked: Asked) -> None:
    """Raise `BadFile` for a job without a GPU: there is nothing to estimate."""
    if asked.options.least_gpus == 0:
        raise BadFile(f"{asked.file}: it uses no GPU, so there is nothing to estimate")


def estimate_document(path: str, name: str, found: Answer) -> dict[str, Any]:
    memory = memory_of(found)
    smact, duration = first_of(found, Quantity.SMACT), first_of(found, Quantity.DURATION)
    return {
        "file": path,
        "estimator": name,
        "memory_mib": None if memory is None else round(memory.value, 1),
        "upper_mib": None if memory is None else round(memory.upper, 1),
        "smact": None if smact is None else round(smact.value, 4),
        "smact_upper": None if smact is None else round(smact.upper, 4),
        "smact_source": None if smact is None else smact.source,
        "duration_s": None if duration is None else round(duration.value, 1),
        "duration_upper_s": None if duration is None else round(duration.upper, 1),
        "duration_source": None if duration is None else duration.source,
        "seconds": None if memory is None else memory.seconds,
        "source": None if memory is None else memory.source,
        "basis": "" if memory is None else memory.basis,
        "guesses": [] if memory is None else list(memory.guesses),
        "notes": list(found.notes),
        "fits": None,
        "changes": [],
    }
