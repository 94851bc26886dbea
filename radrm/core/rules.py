"""The interfaces of the rules. Each rule is small, pure and named in a registry.

The protocols have everything that radrm calls on a rule. `wiring` refuses a rule that lacks a
member, so nothing here is optional. Third parties import these names from `radrm.rules`.

A rule's own memory between calls is its `state`: an argument and a result, as JSON can hold it.
The core saves it with the rule's `version`. A rule keeps nothing else between calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeGuard

from msgspec import Struct

from radrm.core.records import Attempt, Job, OutOfMemory, Refusal
from radrm.core.state.queue.order import Order as Order
from radrm.core.state.sharing import Learner as Learner

TYPE_CHECKING = False
if TYPE_CHECKING:  # who only estimates needs none of the state that rules of other kinds see
    from radrm.core.events import Event
    from radrm.core.proposals import Proposal
    from radrm.core.view import Offer, View


class Ask(Struct, frozen=True):
    """What a policy must find: `gpus` devices for a job, each with `need_mib` (None: unknown)."""

    job: Job
    gpus: int
    need_mib: int | None

    def margin_mib(self, least: int) -> int:
        """Return the memory that must be free beyond the need: at least what would be reserved
        beyond it."""
        return least if self.need_mib is None else max(least, self.job.margin_mib(self.need_mib))


class Policy(Protocol):
    """Chooses the devices of a job.

    One that keeps to `JobSpec.max_slowdown`, for the new job and for the jobs that are there, has
    `honours_slowdown = True`. Under all others a job with such a limit gets idle devices.

    One with `trials = True` gives jobs of unknown need all free memory until they have settled
    (`CoreSettings.trial_floor_mib`).

    A frozenset `steady_refusals` names the rules by which it refuses for lack of memory: a busy
    device then refuses a job of known need as long as less than `Refusal.needed` MiB are free
    there. The policy is not asked again before that.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def floor_mib(self) -> int:
        """The MiB to reserve for a job of unknown need."""
        ...

    @property
    def whole_device(self) -> bool:
        """True: each job has its devices alone."""
        ...

    @property
    def overcommits(self) -> bool:
        """True: it may place a job where its need does not fit, so the core checks no room."""
        ...

    def refuse(self, ask: Ask, offer: Offer) -> Refusal | None:
        """Return why the policy's own conditions refuse this device; None if they do not.

        It is not called for devices that the core refuses.
        """
        ...

    def choose(
        self, ask: Ask, eligible: Sequence[Offer], state: Any
    ) -> tuple[Sequence[Offer], Any]:
        """Return the best `ask.gpus` of the eligible devices, never fewer, and the new state."""
        ...


class Plan(Struct):
    """A planner's answer.

    `proposals` may be a generator: each one is checked and carried out before the next is
    drawn, and the view shows the effect. What the planner has reserved (`Reserve`) is put aside
    during the call, and ends with it unless it is proposed again. `state` is read after the
    last. In it `remarks` may hold a word about running jobs, by job id, which `radrm status JOB`
    shows. `wake_at` (boot-time seconds) asks for a call at that time. A planner that is called
    earlier (after a restart, say) returns it again.
    """

    proposals: Iterable[Proposal] = ()
    state: Any = None
    wake_at: float | None = None


class AnyPlanner(Protocol):
    """What fast and slow planners have in common.

    One that does not serve waiting jobs in the configured order can have `keeps_order(view)`, which
    returns False where it does not. Then users are not told what the order promises
    (`Order.bound`). One that resizes running jobs can have `why_size(view, job)`, which returns
    refusals that say why a running job does not grow.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def listens(self) -> frozenset[type[Event]]:
        """The types of the events after which it is called."""
        ...

    @property
    def starts_jobs(self) -> bool:
        """True: it starts waiting jobs. Exactly one of the configured planners does."""
        ...

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        """Return why a waiting job does not start now, device by device; empty if it could.

        Also a slow planner answers this at once.
        """
        ...


class Planner(AnyPlanner, Protocol):
    """Proposes changes to waiting and running jobs, within milliseconds."""

    def plan(self, view: View, event: Event, state: Any) -> Plan:
        """Return the proposals after an event, with the planner's new state."""
        ...


class SlowPlanner(AnyPlanner, Protocol):
    """A planner that computes for longer: the daemon runs it in a process of its own.

    A planner is slow if it has `think`. It makes one plan at a time. Events meanwhile lead to
    one more plan. A proposal is dropped if its job has changed meanwhile, except by a report of
    progress.

    One that needs a large library can have `get_ready()`, which imports it. The process calls it
    at its start: later it may not be allowed to read the library's files.
    """

    def think(self, view: View, state: Any) -> Plan:
        """Return the proposals for the state at one moment, with the planner's new state.

        The view stays as it is: it shows no effect of a proposal.
        """
        ...


def is_slow(planner: object) -> TypeGuard[SlowPlanner]:
    return hasattr(planner, "think")


class Again(Struct, frozen=True):
    """Recover the job: it is next.

    `memory_floor_mib` is the least need per GPU that its deaths have proven. `ask_mib` is what to
    find instead, a guess: a settled job reserves less. A guess beyond the devices means a whole
    device. With `own_device` no job joins it. With `idle_device` it starts on idle devices
    (as published), else where the site's policy places it. `use_last` names devices that it uses
    only if no others will do.
    """

    memory_floor_mib: int | None
    own_device: bool
    idle_device: bool = True
    ask_mib: int | None = None
    use_last: tuple[str, ...] = ()


class GiveUp(Struct, frozen=True):
    """Fail the job, for this reason. `memory_floor_mib`: as in `Again`."""

    reason: str
    memory_floor_mib: int | None = None


class Recovery(Protocol):
    """Decides what follows when an attempt died of GPU out-of-memory."""

    @property
    def name(self) -> str: ...

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> Again | GiveUp:
        """Return the verdict. `largest_mib`: the largest device.

        The job's record counts this death (`oom_count`, `victim_count`, `died_on`), and
        `evidence.blame` says whose growth caused it.
        """
        ...


class Rules(Struct, frozen=True):
    """The rules in force. `planners` are called in order; one of them starts waiting jobs."""

    order: Order
    planners: Sequence[Planner | SlowPlanner]
    recovery: Recovery
    fallback: Planner | None = None
    """Starts jobs while the planner that does so rests after a failure."""
    learner: Learner | None = None
    """Learns what sharing costs; None: nothing is learned."""


def missing_members(rule: object, interface: type) -> list[str]:
    """Return the names of the members of an interface that a rule lacks."""
    named = dict.fromkeys(
        name
        for kind in reversed(interface.__mro__)
        for name in (*vars(kind), *vars(kind).get("__annotations__", ()))
    )
    return [each for each in named if not each.startswith("_") and not hasattr(rule, each)]


def wrong_calls(rule: object, interface: type) -> list[str]:
    """Return, for each method that cannot be called as the interface says, its call and the right
    one: `key(job), not key(job, now)`."""
    found = []
    for name, method in inspect.getmembers(interface, inspect.isfunction):
        own = getattr(rule, name, None)
        if name.startswith("_") or not callable(own):
            continue
        try:
            given = inspect.signature(own)
        except (TypeError, ValueError):  # written in C: it says nothing of its parameters
            continue
        wanted = [each for each in inspect.signature(method).parameters if each != "self"]
        try:
            given.bind(*wanted)
        except TypeError:
            found.append(f"{name}({', '.join(given.parameters)}), not {name}({', '.join(wanted)})")
    return found
