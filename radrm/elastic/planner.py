"""Elastic: jobs with a range of GPUs use what is idle, and give it back when a job waits.

Theory of operation
-------------------
Our own rule. It changes running jobs only; another planner starts jobs, at their smallest size.

- **Measure.** A job's reports give the seconds of a step at each size that it had (`notes`). To
  these `step = io + compute / n + sync * (n - 1)` is fitted (`notes`).
- **Grow.** Every `interval_s`, if no job waits, what is idle goes to the job that gains most
  (`growing`). A job that waits for data gets more CPUs first.
- **Prove.** A job is faster at its new size by `least_gain` of what was added, or it goes back to
  the largest size that the fit says is worth it; more is not tried again on these GPUs.
- **Give back.** When a job waits that could start on what others have grown to, the youngest growth
  goes first (`giving`). This needs no interval: it is asked at every event that makes a job wait.

It grows onto idle GPUs only, so no neighbour's memory or speed changes.

Invariants:
- A job changes once at a time, and the next change waits until the last one is measured.
- Nothing grows while a job waits in a line. So a job waits for a growth only as long as it takes to
  give it back.

What may interleave: a user's `radrm resize`, another planner's stop, a resize that fails. The next
look finds another setting and measures that; a growth without a note counts as the oldest.

What a restart sees: the notes. After a reboot all is measured anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from radrm.elastic.elasticity.giving import Giver, cpus_back, extra_cpus, gpus_back, waiting_jobs
from radrm.elastic.elasticity.growing import Grower, cpus_free, deal, grower, more_cpus
from radrm.elastic.elasticity.notes import (
    CPUS,
    GPUS,
    Note,
    elastic_role,
    fit,
    setting_of,
)
from radrm.rules import (
    OCCASIONS,
    Attempt,
    Job,
    JobState,
    Placement,
    Plan,
    Planner,
    Policy,
    Proposal,
    Refusal,
    ResizeTo,
    Resizing,
    Role,
    SetShares,
    View,
    can_change,
    find_size,
    fixed,
    with_cpus,
)
from radrm.rules import events as ev

_MOST_INTERVAL_S = 3600.0
_SOON = 12.0
"""After a change the first report is looked for so many times in an interval."""
_ROUNDING_S = 0.001


@dataclass(frozen=True, slots=True)
class Elastic(Planner):
    """Let running jobs grow into what is idle. It runs beside a planner that starts jobs."""

    policy: Policy
    recovery_policy: Policy
    interval_s: float = 60.0
    """Seconds between two looks at who grows (1 to 3600). A size is measured for half of it.

    A site whose jobs report seldom."""
    least_gain: float = 0.5
    """The part of what is added that must become speed (0 to 1): 0.5 means that twice the GPUs are
    at least 1.5 times as fast.

    A site that wants its jobs wider, or its GPUs used better."""
    cost_factor: float = fixed(10.0)
    """A change must save this multiple of the time that it costs."""
    name: str = "elastic"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = OCCASIONS | {ev.AttemptStarted}

    def __post_init__(self) -> None:
        if not 1 <= self.interval_s <= _MOST_INTERVAL_S:
            raise ValueError(f"interval_s = {self.interval_s:g} is not from 1 to 3600 (seconds)")
        if not 0 <= self.least_gain <= 1:
            raise ValueError(f"least_gain = {self.least_gain:g} is not from 0 to 1")

    @property
    def settle_s(self) -> float:
        """The least seconds for which a size is measured before it is judged."""
        return self.interval_s / 2

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        now = view.now
        kept = state
        if not kept or kept["boot"] != now.boot:
            kept = {"boot": now.boot, "next_s": None, "look_s": None, "jobs": {}, "remarks": {}}
        plan = Plan(state=kept, wake_at=kept["look_s"])
        looks = kept["look_s"] is None or now.boot_s >= kept["look_s"] - _ROUNDING_S
        if looks or view.any_waiting or not isinstance(event, ev.ReadingsTaken):
            grows = kept["next_s"] is None or now.boot_s >= kept["next_s"] - _ROUNDING_S
            plan.proposals = _Round(self, view, kept).proposals(plan, grows=grows)
        return plan

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()  # it starts no job

    def why_size(self, view: View, job: Job) -> Sequence[Refusal]:
        """Return why a running job does not grow; empty for a job that cannot, or about to."""
        kept = view.kept(self.name, self.version)
        note = (kept or {}).get("jobs", {}).get(str(job.id))
        if note is None or note["why"] is None:
            return ()
        rule, message, needed, available = note["why"]
        return (Refusal(rule, message, None, needed, available),)


class _Round(Struct):
    """One look at all running jobs."""

    rule: Elastic
    view: View
    kept: dict[str, Any]
    notes: dict[int, Note] = field(default_factory=dict)
    jobs: list[tuple[Job, Attempt, Role]] = field(default_factory=list)

    def proposals(self, plan: Plan, *, grows: bool) -> Iterator[Proposal]:
        """Yield the changes. `grows` False: only those that let a waiting job start."""
        self._look()
        yield from self._give_back()
        if grows:
            yield from self._prove()
            yield from self._grow()
        self._keep(plan, grows)

    def _keep(self, plan: Plan, grown: bool) -> None:
        kept, now_s, interval_s = self.kept, self.view.now.boot_s, self.rule.interval_s
        kept["jobs"] = {str(job_id): note.plain() for job_id, note in self.notes.items()}
        kept["remarks"] = {
            str(job.id): f"grown by {self.notes[job.id].workers - role.count_min}"
            for job, _, role in self.jobs
            if self.notes[job.id].workers > role.count_min
        }
        if not self.jobs:
            kept["next_s"] = kept["look_s"] = plan.wake_at = None
            return
        if grown:
            kept["next_s"] = now_s + interval_s
        kept["look_s"] = kept["next_s"]
        if any(note.first is None for note in self.notes.values()):
            kept["look_s"] = min(kept["next_s"], now_s + interval_s / _SOON)
        plan.wake_at = kept["look_s"]

    def _look(self) -> None:
        """Take in the settings and the reports of all jobs that could grow."""
        view = self.view
        kinds = {device.uuid: device.name for device in view.devices()}
        for job, attempt in view.running():
            role = elastic_role(job)
            if role is None or job.state is not JobState.RUNNING:
                continue
            plain = self.kept["jobs"].get(str(job.id))
            note = self.notes[job.id] = Note.from_plain(plain) if plain is not None else Note()
            self.jobs.append((job, attempt, role))
            if attempt.target is None:
                uuid = next(iter(attempt.placement.devices), "")
                note.look(job, attempt, role, kinds.get(uuid, note.kind), view.now.boot_s)

    # ------------------------------------------------------------- giving back

    def _give_back(self) -> Iterator[Proposal]:
        if not self.view.any_waiting:
            return
        for job in waiting_jobs(self.view):
            givers = self._givers()
            if not givers:
                return
            lacks = self.view.refuse_on_nodes(job)
            if lacks is not None:
                if lacks.rule != "cpus" or lacks.needed is None or lacks.available is None:
                    continue
                back = cpus_back(self.view, lacks.needed - lacks.available, givers)
                if back is not None:
                    yield from self._at_base(giver for giver in givers if giver.job.id in back)
                    return
            elif job.gpus:
                sizes = gpus_back(self.view, job, givers)
                if sizes is not None:
                    for giver in givers:
                        if giver.job.id in sizes:
                            yield from self._resize(giver, sizes[giver.job.id], job)
                    return

    def _givers(self) -> list[Giver]:
        found = []
        for job, _, role in self.jobs:
            now = self._now(job.id)
            if now is None:
                continue
            job, attempt = now
            workers, note = setting_of(attempt, role).workers, self.notes[job.id]
            grown_s = note.grown[-1][0] if note.grown else 0.0
            giver = Giver(job, attempt, role, workers, grown_s)
            if workers > role.count_min or extra_cpus(giver) > 0:
                found.append(giver)
        return found

    def _resize(self, giver: Giver, workers: int, waiting: Job) -> Iterator[Proposal]:
        note = self.notes[giver.job.id]
        why = f"job {waiting.label} ({waiting.spec.name}) waits for the GPUs that it would use"
        note.why, note.trial = ("order", why, None, None), None
        target = self._sized(giver.job, giver.attempt, giver.role, workers)
        if isinstance(target, Placement):
            yield ResizeTo(job_id=giver.job.id, placement=target)

    def _at_base(self, givers: Iterator[Giver]) -> Iterator[Proposal]:
        """Have jobs go back to the CPUs of their start."""
        for giver in givers:
            base, shares = giver.role.needs.cpus, giver.attempt.placement.shares
            assert base is not None
            cpus = {(s.role, s.task): base for s in shares if s.role == giver.role.name}
            self.notes[giver.job.id].trial = None
            lower = with_cpus(giver.attempt.placement, cpus)
            yield SetShares(job_id=giver.job.id, shares=lower.shares)

    # ------------------------------------------------------------- proving

    def _prove(self) -> Iterator[Proposal]:
        """Judge the changes that have been measured for an interval."""
        now_s = self.view.now.boot_s
        for job, attempt, role in self.jobs:
            note = self.notes[job.id]
            if note.trial is None or not can_change(job, attempt):
                continue
            what, before, before_s, wait = note.trial
            here_s = note.sizes.get(note.workers)
            if here_s is None or note.measured_s(now_s) < self.rule.settle_s:
                continue
            note.trial = None
            faster = before_s / here_s - 1.0
            if what == CPUS:
                now_cpus = note.cpus or before
                expected = 1.0 / (1.0 - wait * (1.0 - before / now_cpus)) - 1.0
                if faster < self.rule.least_gain * expected:
                    note.most_cpus = before
                    yield from self._with_cpus(job, attempt, role, before)
                continue
            added = note.workers - int(before)
            if added <= 0 or faster * before / added >= self.rule.least_gain:
                continue
            workers = self._worth(job, note, role, int(before))
            note.most_workers = workers
            target = self._sized(job, attempt, role, workers)
            if isinstance(target, Placement):
                yield ResizeTo(job_id=job.id, placement=target)

    def _worth(self, job: Job, note: Note, role: Role, before: int) -> int:
        """Return the largest size below the present one that would gain enough."""
        found = fit(note.sizes, job.progress.data_wait if job.progress is not None else None)
        for workers in range(note.workers - role.step, before, -role.step):
            if found is not None and found.gain(before, workers - before) >= self.rule.least_gain:
                return workers
        return before

    # ------------------------------------------------------------- growing

    def _grow(self) -> Iterator[Proposal]:
        view, now = self.view, self.view.now
        growers: list[Grower] = []
        for job, attempt, role in self.jobs:
            note = self.notes[job.id]
            if not can_change(job, attempt):
                note.why = ("moving", "it is being changed or stopped", None, None)
                continue
            if note.trial is not None:
                note.why = ("measuring", "its last change is being measured", None, None)
                continue
            if view.any_waiting:
                head = view.head() or view.head(gpuless=True)
                whom = f"job {head.label} ({head.spec.name}) waits" if head else "a job waits"
                note.why = ("order", f"{whom}: nothing grows meanwhile", None, None)
                continue
            more = more_cpus(view, job, attempt, role, note, self.rule.settle_s)
            if more is not None:
                yield from self._try_cpus(job, attempt, role, note, more)
                continue
            if job.spec.resizing is Resizing.NONE or role.count_max == role.count_min:
                note.why = None
                continue
            found = grower(job, attempt, role, note, self.rule.settle_s, now)
            if isinstance(found, Refusal):
                self._say(job.id, found)
            else:
                growers.append(found)
        idle = self._idle(growers)
        spare = {each.job.spec.uid: view.spare_gpus(each.job) for each in growers}
        why = deal(growers, len(idle), self.rule.least_gain, self.rule.cost_factor, spare)
        for each in growers:
            self._say(each.job.id, why.get(each.job.id))
        for each in sorted(growers, key=lambda one: one.job.id):
            if each.workers > each.note.workers:
                yield from self._try_gpus(each, idle)

    def _try_gpus(self, each: Grower, idle: Sequence[str]) -> Iterator[Proposal]:
        target = self._sized(each.job, each.attempt, each.role, each.workers, idle)
        if isinstance(target, Refusal):
            self._say(each.job.id, target)
            return
        yield ResizeTo(job_id=each.job.id, placement=target)
        now, note = self._now(each.job.id), each.note
        if now is not None and (now[1].target is not None or now[0].target is not None):
            before_s = note.sizes[note.workers]
            note.trial = (GPUS, float(note.workers), before_s, 0.0)
            note.grown.append((self.view.now.boot_s, each.workers))

    def _try_cpus(
        self, job: Job, attempt: Attempt, role: Role, note: Note, cpus: float
    ) -> Iterator[Proposal]:
        assert job.progress is not None and note.cpus is not None
        before, wait = note.cpus, job.progress.data_wait or 0.0
        yield from self._with_cpus(job, attempt, role, cpus)
        now = self._now(job.id)
        if now is not None and now[1].pending:
            note.trial = (CPUS, before, note.sizes[note.workers], wait)
            note.why = ("data", f"it waits for data {wait:.0%} of its time: CPUs first", None, None)

    def _with_cpus(self, job: Job, attempt: Attempt, role: Role, cpus: float) -> Iterator[Proposal]:
        shares = attempt.placement.shares
        wanted = {(s.role, s.task): cpus for s in shares if s.role == role.name}
        yield SetShares(job_id=job.id, shares=with_cpus(attempt.placement, wanted).shares)

    # ------------------------------------------------------------- small things

    def _idle(self, growers: Sequence[Grower]) -> list[str]:
        """Return the idle GPUs that one of these jobs could use."""
        found: dict[str, None] = {}
        for each in growers:
            for offer in self.view.offers(each.job, each.role):
                if not offer.job_ids and offer.idle and offer.refusal is None:
                    found[offer.device.uuid] = None
        return list(found)

    def _sized(
        self,
        job: Job,
        attempt: Attempt,
        role: Role,
        workers: int,
        only: Sequence[str] | None = None,
    ) -> Placement | Refusal:
        """Return the placement with so many workers, which all have the same CPUs."""
        rule, counts = self.rule, {role.name: workers}
        found = find_size(
            self.view, job, attempt, counts, rule.policy, rule.recovery_policy, only=only
        )
        here, base = setting_of(attempt, role), role.needs.cpus
        if isinstance(found, Refusal) or here.cpus is None or base is None:
            return found
        room = cpus_free(self.view, attempt)
        cpus = here.cpus
        if room is not None:
            cpus = max(base, min(cpus, (room + here.workers * here.cpus) / workers))
        mine = {(share.role, share.task): cpus for share in found.shares if share.role == role.name}
        return with_cpus(found, mine)

    def _now(self, job_id: int) -> tuple[Job, Attempt] | None:
        """Return a job and its live attempt as they are after the last proposal."""
        job, attempt = self.view.job(job_id), self.view.attempt(job_id)
        return None if job is None or attempt is None else (job, attempt)

    def _say(self, job_id: int, why: Refusal | None) -> None:
        self.notes[job_id].why = (
            None if why is None else (why.rule, why.message, why.needed, why.available)
        )
