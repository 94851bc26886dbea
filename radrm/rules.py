"""The interface for rules: what a rule of one's own imports. These names stay stable.

A rule is an order, a policy, a planner, an estimator or a recovery rule. It is a class with the
attributes and methods of the protocol of its kind. Make it a frozen dataclass: its fields with
defaults are its settings, which users set in the rule's table. What it reads and returns are
structs of msgspec; `replace` returns one with other values of some fields. The page "Rules of your
own" (docs/rules.md) has a whole example of each kind.

An entry point gives a rule its name. The groups are `radrm.orders`, `radrm.policies`,
`radrm.planners`, `radrm.estimators` and `radrm.recovery`.

What a rule must be
-------------------
Pure: it reads no clock, file or random number, so that the simulator and the daemon decide alike.
Its memory between calls is its `state`: plain JSON, which it receives and returns. The state
survives a restart while `version` stays the same. If a rule raises an exception, returns a value
of a wrong type, or takes seconds, a default rule decides for a while. The daemon's log,
`radrm explain` and `radrm doctor` say so. An estimator runs outside the decisions, so these limits
do not apply to it.

An order inherits from `Order`. `key(job, now)` sorts the jobs. If a key depends on time, name the
time of its next change with `changes_s(job, now)`. `rank(use)` sorts users by their recent GPU
time, and `bound(job, now)` says for users which later jobs may pass a waiting one.

A planner says with `starts_jobs` whether it starts waiting jobs. Exactly one of the planners of
`planner = ["strict", "mine"]` does. It reads a `View` and answers with a `Plan`. It gets the
site's other rules if it has fields `policy`, `recovery_policy` or `costs`; `find_placement` takes
the first two. One with `think` in place of `plan` is slow: it runs in a process of its own, and may
take a minute (`CoreSettings.think_s`). The `View` that it reads does not change meanwhile.

Here follow all names but the protocols, the view and the functions, one line each;
`python -m pydoc radrm.rules.Job` shows one whole. `events` and `actions` are modules.

Constants:
    DECLARED            The source of an estimate that the submitter has declared
    LOCAL_NODE          The name of a server that is alone
    OCCASIONS           The events after which a waiting job may be able to start
    OVERRUN             The part of its past that a job that exceeds its estimate is to last again
    TIME_LIMIT          The source of a run time of which only the time limit is known
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from sys import modules
from typing import Any

from radrm.core import actions as actions
from radrm.core import events as events

# isort: off
from radrm.core.constraints.kinds import Rank as Rank, kind_refusal as kind_refusal
from radrm.core.planning.placing import Found as Found
from radrm.core.planning.placing import find_with_fallback
from radrm.core.planning.requests import find_size as find_size_by, with_cpus as with_cpus
from radrm.core.proposals import (
    Cancel as Cancel,
    Migrate as Migrate,
    Preempt as Preempt,
    Proposal as Proposal,
    Reserve as Reserve,
    ResizeTo as ResizeTo,
    SetShares as SetShares,
    Start as Start,
    TakeCheckpointNow as TakeCheckpointNow,
    Warn as Warn,
)
from radrm.core.records import (
    DECLARED as DECLARED,
    LOCAL_NODE as LOCAL_NODE,
    ArrayElement as ArrayElement,
    Attempt as Attempt,
    AttemptMemory as AttemptMemory,
    Beside as Beside,
    Blame as Blame,
    Checkpoint as Checkpoint,
    Chip as Chip,
    Dependency as Dependency,
    Device as Device,
    EarlySignal as EarlySignal,
    Estimate as Estimate,
    Exit as Exit,
    HostUse as HostUse,
    Instant as Instant,
    Job as Job,
    JobSpec as JobSpec,
    JobWarning as JobWarning,
    Needs as Needs,
    Node as Node,
    NodeUse as NodeUse,
    OuterJob as OuterJob,
    OutOfMemory as OutOfMemory,
    Pause as Pause,
    Pending as Pending,
    Placement as Placement,
    PlannerRequest as PlannerRequest,
    Profiled as Profiled,
    Progress as Progress,
    Reading as Reading,
    RecentUses as RecentUses,
    Refusal as Refusal,
    Requeued as Requeued,
    Reservation as Reservation,
    Role as Role,
    Share as Share,
    Stop as Stop,
    Task as Task,
    TaskUse as TaskUse,
    DeviceProcess as DeviceProcess,
    Usage as Usage,
    Use as Use,
    UserReservation as UserReservation,
    UserUse as UserUse,
    moment as moment,
    plain_moment as plain_moment,
)
from radrm.core.rules import (
    Again as Again,
    Ask as Ask,
    GiveUp as GiveUp,
    Order as Order,
    Plan as Plan,
    Planner as Planner,
    Policy as Policy,
    Recovery as Recovery,
    SlowPlanner as SlowPlanner,
)
from radrm.core.seen import DeviceSnapshot as DeviceSnapshot, OccupantSnapshot as OccupantSnapshot
from radrm.core.settings import CoreSettings as CoreSettings, fixed as fixed
from radrm.core.units import (
    parse_mib as parse_mib,
    parse_seconds as parse_seconds,
    show_mib as show_mib,
    show_seconds as show_seconds,
)
from radrm.core.view import Occupant as Occupant, Offer as Offer, View as View
from radrm.core.words import (
    ActionKind as ActionKind,
    Cause as Cause,
    CheckpointKind as CheckpointKind,
    Collocation as Collocation,
    Condition as Condition,
    DeviceKind as DeviceKind,
    JobState as JobState,
    Outcome as Outcome,
    Quantity as Quantity,
    Queue as Queue,
    ReservationKind as ReservationKind,
    Resizing as Resizing,
    StopReason as StopReason,
    Unit as Unit,
)
from radrm.deadlines import Costs as Costs, Zone as Zone
from radrm.core.remaining import (
    OVERRUN as OVERRUN,
    TIME_LIMIT as TIME_LIMIT,
    Remaining as Remaining,
    length_s as length_s,
    remaining as remaining,
)
from radrm.errors import RadrmError as RadrmError
from radrm.estimators.interface import (
    Description as Description,
    Estimator as Estimator,
    PastRun as PastRun,
)
from radrm.interference.model import (
    Demand as Demand,
    speeds as speeds,
    unknown_smact as unknown_smact,
)
from radrm.planners.durations import run_times as run_times, sizes as sizes
from radrm.planners.order_policy import OCCASIONS as OCCASIONS, OrderPolicy as OrderPolicy
from radrm.policies.exclusive import Exclusive as Exclusive
from radrm.structs import replace as replace
# isort: on

__all__ = [
    "Estimator",
    "Order",
    "Planner",
    "Policy",
    "Recovery",
    "SlowPlanner",
    "View",
    "can_change",
    "find_placement",
    "find_size",
    "fixed",
    "kind_refusal",
    "length_s",
    "moment",
    "parse_mib",
    "parse_seconds",
    "plain_moment",
    "remaining",
    "replace",
    "run_times",
    "show_mib",
    "show_seconds",
    "sizes",
    "speeds",
    "unknown_smact",
    "with_cpus",
]
"""What `pydoc` shows whole. What is imported by its own name (`Job as Job`) is public, too."""


def find_placement(
    view: View,
    job: Job,
    policy: Policy,
    recovery: Policy | None = None,
    *,
    state: Any = None,
    only: Collection[str] | None = None,
) -> Found:
    """Return where a job can run now, at its smallest size, as the planner `strict` finds it.

    `policy` chooses among the devices that the core and it accept for memory and SM activity. Of
    devices that are as good, near ones and those that the job prefers come first. CPUs and host
    memory fit. `recovery`: the policy of jobs that recovery starts on idle devices, and of all
    jobs while `policy` rests after a failure. `state`: what the policy has kept. `only`: use no
    other devices, by UUID.

    `Found.placement` goes into a `Start` or a `Migrate`. It is None where `Found.refusals` say why.
    """
    instead = policy if recovery is None else recovery
    return find_with_fallback(
        view, instead if job.recovers_idle else policy, job, state, instead, only
    )


def find_size(
    view: View,
    job: Job,
    attempt: Attempt,
    counts: Mapping[str, int],
    policy: Policy,
    recovery: Policy | None = None,
    *,
    only: Collection[str] | None = None,
) -> Placement | Refusal:
    """Return the placement of a running job with other numbers of tasks, or why it has none now.

    `counts`: by role; a role that is not named keeps its tasks. Tasks that stay keep their devices;
    the last ones of a role go first. New ones are placed as by `find_placement`, each with the
    fewest CPUs of its role (`with_cpus` gives them others). The result goes into a `ResizeTo`.
    """
    instead = policy if recovery is None else recovery
    chosen = instead if job.recovers_idle else policy
    return find_size_by(view, chosen, instead, job, attempt, counts, only)


def can_change(job: Job, attempt: Attempt) -> bool:
    """Return whether a running job can get another size, place or share now.

    Not while it is stopped, saved, moved or changed: the core would reject the proposal.
    """
    return (
        job.state is JobState.RUNNING
        and attempt.stop is None
        and attempt.target is None
        and job.target is None
        and not attempt.pending
    )


_TABLES = {
    "radrm.core.proposals": "What a planner proposes",
    "radrm.core.events": "Events, in `events`: what a planner listens to",
    "radrm.core.actions": "Actions, in `actions`: what a failed action was",
    "radrm.core.records": "Records: jobs, attempts, devices, placements",
    "radrm.core.words": "Words",
    "radrm": "All others",
}
"""The titles of the tables, by the beginning of the modules that their classes are from."""


def _tables() -> str:
    """Return the name and the meaning of each class that is not in `__all__`, in tables."""
    found: dict[str, list[str]] = {title: [] for title in _TABLES.values()}
    for module in (events, actions, modules[__name__]):
        for name, value in sorted(vars(module).items()):
            at = getattr(value, "__module__", "")
            if not isinstance(value, type) or name in __all__ or not at.startswith("radrm"):
                continue
            if module.__name__ in (at, __name__):
                title = next(each for start, each in _TABLES.items() if at.startswith(start))
                meaning = " ".join((value.__doc__ or "").split("\n\n")[0].split())
                found[title].append(f"    {name:<20}{meaning.partition('. ')[0].rstrip('.')}")
    return "\n".join(f"\n{title}:\n" + "\n".join(rows) for title, rows in found.items())


if __doc__ is not None:  # `python -OO` has none
    __doc__ += _tables()
