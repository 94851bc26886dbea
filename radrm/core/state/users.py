"""What users run now, their limits, and their recent GPU time.

Theory of operation: what users run now
---------------------------------------
    room for jobs of g GPUs = min(running_jobs - running, (gpus - in use) // g)

A job runs while it has a live attempt, and on the way from its place to the target of a migration.
It has the GPUs of its placement, or of the target of a migration or resize if these are more: a
change never counts a job twice. Each job counts its GPUs (a MIG instance is one), so a GPU that two
jobs of a user share counts twice.

Invariants:
- Nothing is stored. The counts follow from the records of jobs and attempts at each change, so a
  restart makes the same ones.
- `refuse` is asked about every placement (`constraints/placement.py`). The places of
  `queue/line.py` only spare planners the jobs that it would refuse.

What may interleave: limits that were lowered before a restart stop nothing that runs.

Theory of operation: recent GPU time
------------------------------------
An account is that of a user or of a Unix group. Its rate is the number of GPUs that its jobs
hold: a device counts 1, and n jobs that share it have 1/n each, as with a device's energy. So
sharing costs a user less than a device of one's own. A MIG instance counts as a device.

Between two changes of the rate r, the use U of an account follows dU/dt = r - U ln 2 / h, with
the half-life h. The closed form needs no timer:
    U(t) = U(0) 2^(-t/h) + r h / ln 2 (1 - 2^(-t/h))

Invariants:
- The rate is that of the live attempts at any time. A change costs the jobs on the devices that
  the attempt has or had, not the queue.
- An account without a live job and with less than 1 GPU-second left may be forgotten.

An account knows when a job of it last started, for orders that let users take turns.

What a restart sees: an account's last change (`RuleState` of the kind "use") and the live
attempts. Its rate has not changed since, so nothing is lost. A job that ended while no daemon
ran counts until the next daemon sees its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import exp, expm1, inf, isfinite, log
from typing import Any, TypeAlias

from msgspec import Struct, field

from radrm.core.records import (
    Attempt,
    Instant,
    Job,
    JobSpec,
    Placement,
    RecentUses,
    Refusal,
    RuleState,
    Use,
    UserUse,
)
from radrm.core.settings import CoreSettings
from radrm.structs import replace

RUNNING_JOBS, GPUS = "limits.running_jobs", "limits.gpus"


class UserCounts(Struct):
    """The numbers of a user's queued and running jobs, and of the GPUs of the running ones."""

    queued: int = 0
    running: int = 0
    gpus: int = 0


_Ways: TypeAlias = tuple[Placement | None, Placement | None, Placement | None]
_Counted: TypeAlias = tuple[_Ways | None, int | None]
"""The placements for which a job counts, and its GPUs; both None for one that is queued."""


class Users:
    """The use of every user with unfinished jobs."""

    def __init__(self, settings: CoreSettings) -> None:
        self._jobs_limit = settings.user_running_jobs
        self._gpus_limit = settings.user_gpus
        self._exempt = frozenset(settings.exempt_users)
        self._of_job: dict[int, _Counted] = {}
        self._of_user: dict[int, UserCounts] = {}

    @property
    def any_limit(self) -> bool:
        """True if any user has a limit."""
        return bool(self._jobs_limit or self._gpus_limit)

    def update(self, job: Job, attempt: Attempt | None) -> bool:
        """Count a job by its present records. Returns whether what its user runs has changed.

        `attempt`: its last attempt; None without one.
        """
        ways: _Ways | None = None
        if attempt is not None and attempt.ended is None:
            ways = (attempt.placement, attempt.target, job.target)
        elif job.target is not None:
            ways = (None, None, job.target)
        before = self._of_job.get(job.id)
        if ways is None and job.state.final:
            if before is not None:
                del self._of_job[job.id]
                self._add(job.spec.uid, before[1], -1)
            return before is not None and before[1] is not None
        if before is not None and before[0] == ways:
            return False
        gpus = None
        if ways is not None:
            gpus = max(len(each.devices) for each in ways if each is not None)
        self._of_job[job.id] = ways, gpus
        if before is not None and before[1] == gpus:
            return False
        self._add(job.spec.uid, gpus, 1)
        if before is not None:
            self._add(job.spec.uid, before[1], -1)
        return gpus is not None or before is not None

    def _add(self, uid: int, gpus: int | None, sign: int) -> None:
        """Add a job to its user's use, or take it away. `gpus`: None for one that is queued."""
        use = self._of_user.setdefault(uid, UserCounts())
        if gpus is None:
            use.queued += sign
        else:
            use.running += sign
            use.gpus += sign * gpus
        if not use.queued and not use.running:
            del self._of_user[uid]

    def of(self, uid: int) -> UserCounts:
        """Return a user's use now."""
        return self._of_user.get(uid) or UserCounts()

    def every(self) -> Mapping[int, UserCounts]:
        """Return the use of each user with unfinished jobs, by uid."""
        return self._of_user

    def limits(self, uid: int) -> tuple[int, int]:
        """Return a user's limits of running jobs and of GPUs; 0: none."""
        return (0, 0) if uid in self._exempt else (self._jobs_limit, self._gpus_limit)

    def room(self, uid: int, gpus: int) -> int | None:
        """Return how many more jobs of so many GPUs a user may run; None: any number."""
        most_jobs, most_gpus = self.limits(uid)
        if not most_jobs and not most_gpus:
            return None
        use, room = self.of(uid), []
        if most_jobs:
            room.append(most_jobs - use.running)
        if most_gpus and gpus:
            room.append((most_gpus - use.gpus) // gpus)
        return max(0, min(room)) if room else None

    def refuse(self, job: Job, gpus: int) -> Refusal | None:
        """Return which limit of its user a job with so many GPUs would exceed; None if none.

        What the job has already is its own: it may keep or lower it where a limit was lowered.
        """
        most_jobs, most_gpus = self.limits(job.spec.uid)
        if not most_jobs and not most_gpus:
            return None
        use, counted = self.of(job.spec.uid), self._of_job.get(job.id)
        mine = None if counted is None else counted[1]
        if mine is None and most_jobs and use.running >= most_jobs:
            runs = f"user {job.spec.user} runs {use.running} job{'s' * (use.running != 1)}"
            why = f"{runs}, the limit is {most_jobs} (limits.running_jobs)"
            return Refusal(RUNNING_JOBS, why, None, use.running + 1, most_jobs)
        others = use.gpus - (mine or 0)
        if most_gpus and gpus > (mine or 0) and others + gpus > most_gpus:
            why = (
                f"needs {gpus} GPU{'s' * (gpus != 1)}, other jobs of {job.spec.user} use {others}, "
                f"the limit is {most_gpus} (limits.gpus)"
            )
            return Refusal(GPUS, why, None, others + gpus, most_gpus)
        return None

    def never(self, job: Job) -> str | None:
        """Return why the limits of its user never let a job start; None if they do."""
        most = self.limits(job.spec.uid)[1]
        if not most or job.gpus <= most:
            return None
        return f"limits.gpus: it needs {job.gpus} GPUs, the limit is {most} per user"

    def spare_gpus(self, uid: int) -> int | None:
        """Return how many more GPUs a user may have; None: any number."""
        most = self.limits(uid)[1]
        return max(0, most - self.of(uid).gpus) if most else None


KIND = "use"
"""The kind of the stored records."""
_VERSION = 1
_LEAST_GPU_S = 1.0
_FEW = 256
"""Up to this many accounts, none is forgotten."""

Key: TypeAlias = "tuple[str, str]"
"""`user` with a uid, or `group` with a name."""


class _Account(Struct):
    gpu_s: float
    at: Instant
    """When `gpu_s` was right."""
    user: str | None
    started: Instant | None = None
    """When a job last got its first GPUs."""
    jobs: set[int] = field(default_factory=set)
    gpus: float = 0.0


class Uses:
    """The accounts. `save` stores a record; `now` returns the time of the current step."""

    def __init__(
        self, half_life_s: float, now: Callable[[], Instant], save: Callable[[RuleState], None]
    ) -> None:
        self._half_life_s = half_life_s
        self._now = now
        self._save = save
        self._accounts: dict[Key, _Account] = {}
        self._jobs_on: dict[str, set[int]] = {}
        """The jobs on each device."""
        self._devices_of: dict[int, tuple[str, ...]] = {}
        self._keys_of: dict[int, tuple[Key, ...]] = {}
        self._most = _FEW
        self._restoring = False
        self.version = 0
        """Grows with every change of a rate."""

    # ------------------------------------------------------------- questions

    def of(self, spec: JobSpec) -> UserUse:
        """Return the use of a job's user and group now."""
        mine = ("user", str(spec.uid))
        return UserUse(
            uid=spec.uid,
            user=spec.user,
            own=self._use(mine),
            group=spec.group,
            of_group=Use() if spec.group is None else self._use(("group", spec.group)),
            idle_s=self._idle_s(mine),
        )

    def without(self, job: Job, spec: JobSpec) -> UserUse:
        """Return the same as if this live job had left its GPUs."""
        found = self.of(spec)
        gpus = sum(1.0 / len(self._jobs_on[uuid]) for uuid in self._devices_of.get(job.id, ()))
        mine = spec.uid == job.spec.uid
        ours = spec.group is not None and spec.group == job.spec.group
        return replace(
            found,
            own=_less(found.own, gpus * mine),
            of_group=_less(found.of_group, gpus * ours),
        )

    def recent(self) -> RecentUses:
        """Return the use of all users, by uid, and of all groups, by name."""
        users, groups = [], []
        for (kind, name), account in self._accounts.items():
            use = self._use((kind, name))
            if kind == "user":
                users.append(UserUse(int(name), account.user or name, use))
            else:
                groups.append((name, use))
        return RecentUses(
            tuple(sorted(users, key=lambda each: each.uid)),
            tuple(sorted(groups, key=lambda each: each[0])),
        )

    def _use(self, key: Key) -> Use:
        account = self._accounts.get(key)
        if account is None:
            return Use()
        return Use(self._gpu_s(account), account.gpus)

    def _idle_s(self, key: Key) -> float:
        account = self._accounts.get(key)
        if account is None or account.started is None:
            return inf
        return _passed_s(account.started, self._now())

    def _gpu_s(self, account: _Account) -> float:
        passed_s = _passed_s(account.at, self._now())
        if self._half_life_s <= 0:
            return 0.0
        lasting_s = self._half_life_s / log(2)
        decay = -max(0.0, passed_s) / lasting_s
        # `expm1` keeps the digits of a short time.
        return account.gpu_s * exp(decay) - account.gpus * lasting_s * expm1(decay)

    # ------------------------------------------------------------- changes

    def update(self, job: Job | None, attempt: Attempt) -> None:
        """Note the devices of a live attempt; none if it has ended."""
        job_id = attempt.job_id
        before = self._devices_of.get(job_id, ())
        after = attempt.placement.devices if attempt.ended is None else ()
        if before == after or (job is None and after):
            return
        touched = {job_id}.union(*(self._jobs_on.get(uuid, ()) for uuid in {*before, *after}))
        if job is not None and after:
            self._keys_of[job_id] = keys = _keys(job.spec)
            for key in keys:
                account = self._account(key, job.spec.user)
                account.jobs.add(job_id)
                if not before and not self._restoring:
                    account.started = self._now()
        accounts = list(dict.fromkeys(k for i in sorted(touched) for k in self._keys_of[i]))
        self._settle(accounts)
        for uuid in before:
            self._jobs_on[uuid].discard(job_id)
            if not self._jobs_on[uuid]:
                del self._jobs_on[uuid]
        for uuid in after:
            self._jobs_on.setdefault(uuid, set()).add(job_id)
        if after:
            self._devices_of[job_id] = after
        else:
            del self._devices_of[job_id]
            for key in self._keys_of.pop(job_id):
                self._accounts[key].jobs.discard(job_id)
        for key in accounts:
            self._set_rate(key)
        self.version += 1
        self._forget()

    def _account(self, key: Key, user: str) -> _Account:
        found = self._accounts.get(key)
        if found is None:
            name = user if key[0] == "user" else None
            found = self._accounts[key] = _Account(0.0, self._now(), name)
        return found

    def _settle(self, keys: Iterable[Key]) -> None:
        """Bring accounts up to now, at their old rates."""
        if self._restoring:
            return  # the stored rate was the present one
        for key in keys:
            account = self._accounts[key]
            account.gpu_s, account.at = self._gpu_s(account), self._now()

    def _set_rate(self, key: Key) -> None:
        account = self._accounts[key]
        jobs_on, devices_of = self._jobs_on, self._devices_of
        # In the order of the ids, so that the sum is the same after a restart.
        account.gpus = sum(
            [
                1.0 / len(jobs_on[uuid])
                for job_id in sorted(account.jobs)
                for uuid in devices_of[job_id]
            ]
        )
        if not self._restoring:
            state = {
                "gpu_s": account.gpu_s,
                "user": account.user,
                "boot_s": account.at.boot_s,
                "wall_s": account.at.wall_s,
                "boot": account.at.boot,
                "started": _stored(account.started),
            }
            self._save(RuleState(KIND, ":".join(key), _VERSION, state))

    def _forget(self) -> None:
        """Forget the accounts with nearly no use once there are many."""
        if len(self._accounts) <= self._most:
            return
        self._accounts = {
            key: account
            for key, account in self._accounts.items()
            if account.jobs or self._gpu_s(account) >= _LEAST_GPU_S
        }
        self._most = 2 * len(self._accounts) + _FEW

    # ------------------------------------------------------------- restart

    @contextmanager
    def restored(self, records: Iterable[RuleState]) -> Iterator[None]:
        """Load the stored accounts. The attempts that are noted inside are live since then."""
        for record in records:
            account = _account_of(record) if record.kind == KIND else None
            if account is not None:
                kind, _, name = record.name.partition(":")
                self._accounts[kind, name] = account
        self._restoring = True
        yield
        self._restoring = False


def _passed_s(since: Instant, now: Instant) -> float:
    passed_s = now.since(since)
    return now.wall_s - since.wall_s if passed_s is None else passed_s  # None: a reboot


def _less(use: Use, gpus: float) -> Use:
    return replace(use, gpus=max(0.0, use.gpus - gpus))


def _keys(spec: JobSpec) -> tuple[Key, ...]:
    user = ("user", str(spec.uid))
    return (user,) if spec.group is None else (user, ("group", spec.group))


def _stored(at: Instant | None) -> list[Any] | None:
    return None if at is None else [at.boot_s, at.wall_s, at.boot]


def _loaded(stored: list[Any] | None) -> Instant | None:
    if stored is None:
        return None
    boot_s, wall_s, boot = stored
    return Instant(float(boot_s), float(wall_s), boot)


def _account_of(record: RuleState) -> _Account | None:
    """Return a stored account; None if the record is of another version or damaged."""
    state = record.state
    if record.version != _VERSION or not isinstance(state, dict):
        return None
    try:
        at = Instant(float(state["boot_s"]), float(state["wall_s"]), state["boot"])
        found = _Account(float(state["gpu_s"]), at, state["user"], _loaded(state["started"]))
    except (KeyError, TypeError, ValueError):
        return None
    return found if all(map(isfinite, (found.gpu_s, at.boot_s, at.wall_s))) else None
