"""The recent GPU time of users and groups.

Theory of operation
-------------------
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

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import exp, expm1, inf, isfinite, log
from typing import Any, TypeAlias

from radrm.core.records import Attempt, Instant, Job, JobSpec, RecentUses, RuleState, Use, UserUse

KIND = "use"
"""The kind of the stored records."""
_VERSION = 1
_LEAST_GPU_S = 1.0
_FEW = 256
"""Up to this many accounts, none is forgotten."""

Key: TypeAlias = "tuple[str, str]"
"""`user` with a uid, or `group` with a name."""


@dataclass(slots=True)
class _Account:
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
