"""The shapes of the rules that plug in. Each is small, pure and named in a registry.

A rule's own memory between calls is its `state`: passed in, returned, JSON-
serialisable, and persisted by the core under the rule's `version`. A rule keeps
nothing else from one call to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from radrm.core.events import Event
from radrm.core.proposals import Proposal
from radrm.core.records import Attempt, Estimate, Job, JobSpec, OutOfMemory, Refusal
from radrm.core.view import Offer, View


class Order(Protocol):
    """Which waiting job next? Recovery and priority come before an order's key.

    `strict`: while the head cannot start, nobody behind it does.
    """

    @property
    def name(self) -> str: ...
    @property
    def strict(self) -> bool: ...

    def key(self, job: Job) -> tuple[Any, ...]: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """What a policy is asked for: `gpus` devices, each with `need_mib` (None: unknown)."""

    job: Job
    gpus: int
    need_mib: int | None


class Policy(Protocol):
    """Which devices, for this job, now?

    `floor_mib` is what a job of unknown need is promised; `whole_device` says that
    every job placed by it has its devices to itself; `overcommits` (taken for False
    where a policy does not say) that it may place a job where its need does not fit.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def floor_mib(self) -> int: ...
    @property
    def whole_device(self) -> bool: ...

    @property
    def overcommits(self) -> bool: ...

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        """Why not this device, in the policy's own terms; the core's no came before."""
        ...

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        """The best `ask.gpus` of at least as many eligible devices, and the new state."""
        ...


@dataclass(slots=True)
class Plan:
    """A planner's answer.

    `proposals` may be a generator: each is validated and carried out before the
    next is drawn, and the view shows the effect. `state` is read when they are
    drawn. `wake_at` (boot-time seconds) asks to be called again; a planner that is
    called early (after a restart, say) returns it again.
    """

    proposals: Iterable[Proposal] = ()
    state: Any = None
    wake_at: float | None = None


class Planner(Protocol):
    """What should change, looking at waiting and running jobs together?

    `listens` names the kinds of event after which it is called.
    """

    name: str
    version: int
    listens: frozenset[type[Event]]

    def plan(self, view: View, event: Event, state: Any) -> Plan: ...

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        """Why a waiting job does not start now, device by device; empty when it could."""
        ...


@dataclass(frozen=True, slots=True)
class Again:
    """Recover the job: with at least this promise, on a device of its own or not."""

    memory_floor_mib: int | None
    own_device: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    reason: str


class Recovery(Protocol):
    """An attempt died of GPU out-of-memory: again, where, with what reservation?"""

    name: str

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> Again | GiveUp:
        """`job.oom_count` includes this death; `largest_mib` is the largest device there is."""
        ...


@dataclass(frozen=True, slots=True)
class PastRun:
    """What one attempt was seen to need, and what had been said of it before.

    `peak_mib` is the highest per GPU; `alone`: nobody else was on its GPUs, so that
    `smact` (0..1, mean) is its own. `told`: each estimator's own figure in MiB, by name.
    `driver` and `cuda`: the GPU driver's version, and the one that the program's CUDA was
    built with, None where they are not known.
    """

    peak_mib: int
    device_kind: str
    smact: float | None = None
    alone: bool = False
    duration_s: float | None = None
    told: dict[str, float] = field(default_factory=dict)
    driver: str | None = None
    cuda: str | None = None


@dataclass(frozen=True, slots=True)
class Description:
    """What an estimator is told of a job: its spec, and what its file says beside.

    `published` holds figures that a prototype job file brings along, in MiB, by
    name (`measured`, `horus`, `faketensor`, `gpumemnet`). `summary` is the text of the
    model's summary, as it was at submission. `batch_size` is each GPU's (of DataParallel:
    of all GPUs together); `sequence_length` counts tokens, `input_shape` is that of one
    sample. `trace` is what tracing its training step told, as text
    (`radrm.estimators.traced`). `device_kind` names the GPUs that it will run on, such as
    `NVIDIA A100-SXM4-40GB`, None where they are of several kinds or unknown.

    `driver` is the GPU driver's version here. `contexts`: what a CUDA context was measured to
    take in MiB on such GPUs under this driver, by the version that CUDA was built with.

    `same_runs` are earlier runs of the very same thing, `recent_runs` those of anything
    on this machine, the latest first.
    """

    spec: JobSpec
    declared_mib: int | None = None
    declared_smact: float | None = None
    declared_duration_s: float | None = None
    published: dict[str, float] = field(default_factory=dict)
    summary: str | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    input_shape: tuple[int, ...] | None = None
    optimizer: str | None = None
    precision: str | None = None
    trace: str | None = None
    device_kind: str | None = None
    driver: str | None = None
    contexts: dict[str, float] = field(default_factory=dict)
    same_runs: tuple[PastRun, ...] = ()
    recent_runs: tuple[PastRun, ...] = ()


class Estimator(Protocol):
    """What will this job need? Asked once per submission, outside `step`."""

    name: str

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        """Nothing for what it cannot tell.

        May raise RadrmError, in a line for the user, where something of the job's could
        tell if it were whole or correct: the next estimator is asked, and the line kept.
        """
        ...
