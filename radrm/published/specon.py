"""SpeCon: jobs that hardly improve any more move to devices with less to do.

Theory of operation
-------------------
Zheng's thesis, section 5.2, with a device as the worker. Every `interval_s`:

- Algorithm 3 (`convergence`) puts each job into a category. A converged job that slows down
  further, beside at least two that are not converged, asks for a move.
- Algorithm 4 gives each device a score: the weights of the categories of its jobs, summed. The job
  moves to the device with the lowest score (ties: lowest SM activity). It stays if its own device
  is among the lowest.
- Algorithm 5 acts when all jobs have converged. With n jobs on m devices each device should have
  floor(n / m). Idle devices get a job each; without any, those with fewer than floor(n / m) - 1.
  The job that converged last moves first. (Line 27 means the target.)

A job is moved at most once by Algorithm 4 and once by Algorithm 5. It must be able to save its
work, and have one GPU that it shares.

`measure = "paper"` is that. By default a move must also be worth it (`time_won`): the job does
not end later, and the jobs of both devices win together `min_gain` times what the move costs. Only
GPUs of the job's type count, because no speed on another type is known, and only those that the
lists of GPUs put no lower. While a job waits for a GPU, no job moves to an idle one. And jobs that
report no loss do not keep Algorithm 5 from acting.

Either way a target must pass the core's checks and the site's policy, as for a job that starts.

Invariants:
- A job is marked when the core has carried out its move, also if that fails later. So nothing is
  asked for twice, and a job that could not save in time is left alone.
- A job that is under way counts where it goes. So two jobs of one run see each other.

What a restart sees: the notes of unfinished jobs, and the moment of the last run on both clocks.
After a reboot a new interval begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from radrm.published.convergence import (
    CONVERGED,
    PROGRESSING,
    WATCHING,
    Note,
    judge,
    judge_as_published,
)
from radrm.rules import (
    OVERRUN,
    TIME_LIMIT,
    ActionKind,
    Attempt,
    CheckpointKind,
    Collocation,
    CoreSettings,
    Demand,
    Device,
    Instant,
    Job,
    JobState,
    Migrate,
    Placement,
    Plan,
    Planner,
    Policy,
    Proposal,
    Quantity,
    Refusal,
    View,
    find_placement,
    fixed,
    moment,
    plain_moment,
    remaining,
    replace,
    speeds,
    unknown_smact,
)
from radrm.rules import events as ev

# ------------------------------------------------------------------
# What a move to another device wins, and what it costs.
#
# Theory of operation
# -------------------
# The jobs of a device run at the speeds of the interference model (`radrm/interference/model.py`)
# until one ends; then the others run faster. So each job has an expected end. A move changes the
# ends of the jobs on two devices: the time won is the sum of what each of them wins or loses.
#
# The work left is what the job reports: the part not done, at its measured rate. Without reports it
# is the rest of the predicted duration; without that, a job is expected to last as long as it has.
#
# The cost is the time in which a moved job does no work: saving, starting, and warming up, each as
# measured. A save that was never measured takes the stated cost; without one, the time that the
# core waits for it.


_SLOWEST = 0.05
"""The least speed that is believed."""


class JobOnDevice(Struct, frozen=True):
    """A job on a device: the SM activity that it shows alone, and its work left.

    `left_s` is in seconds alone on the device.
    """

    job_id: int
    smact: float
    mps: bool
    left_s: float


def speeds_of(members: Sequence[JobOnDevice]) -> list[float]:
    """Return the speed of each job of a device, 1.0 for one that is alone there."""
    found = speeds([Demand(m.smact) for m in members], mps=all(m.mps for m in members))
    return [max(_SLOWEST, speed) for speed in found]


def ends(members: Sequence[JobOnDevice]) -> dict[int, float]:
    """Return the seconds until each job of a device ends, if no other job joins them."""
    found: dict[int, float] = {}
    left = [(member, member.left_s) for member in members]
    now_s = 0.0
    while left:
        at = speeds_of([member for member, _ in left])
        step_s = min(left_s / speed for (_, left_s), speed in zip(left, at, strict=True))
        now_s += step_s
        still = []
        for (member, left_s), speed in zip(left, at, strict=True):
            rest_s = left_s - speed * step_s
            if rest_s > 1e-6 * member.left_s:
                still.append((member, rest_s))
            else:
                found[member.job_id] = now_s
        left = still
    return found


def time_won(
    mover: JobOnDevice, here: Sequence[JobOnDevice], there: Sequence[JobOnDevice], cost_s: float
) -> tuple[float, float]:
    """Return the seconds that a move wins for the mover, after its cost, and for all before it.

    `here` has the mover, `there` does not.
    """
    before = {**ends(there), **ends(here)}
    stay = [member for member in here if member.job_id != mover.job_id]
    after = {**ends(stay), **ends([*there, mover])}
    own_s = before[mover.job_id] - after[mover.job_id]
    return own_s - cost_s, sum(before.values()) - sum(after.values())


def work_left_s(job: Job, attempt: Attempt, note: Note | None, speed: float, now: Instant) -> float:
    """Return the work that a job has left, in seconds alone. `speed` is its speed now (0..1]."""
    if note is not None and note.at is not None and note.done is not None and note.rate:
        then_s = max(0.0, 1.0 - note.done) / note.rate
        return max(OVERRUN * then_s, then_s - (now.since(moment(note.at)) or 0.0)) * speed
    left = remaining(job, attempt, now, speed=speed)
    if left is None or left.source == TIME_LIMIT:
        return max(0.0, now.since(attempt.started or attempt.launched) or 0.0) * speed
    return left.value_s * speed


def cost_of_move_s(job: Job, attempt: Attempt, note: Note, settings: CoreSettings) -> float:
    """Return the seconds in which a move lets a job do no work."""
    asked, saved = attempt.checkpoint_asked, job.saved_at
    save_s = saved.since(asked) if asked is not None and saved is not None else None
    if save_s is None or save_s < 0:
        save_s = job.spec.checkpoint.cost_s
    patience_s = settings.checkpoint_limit_s
    save_s = patience_s if save_s is None else min(save_s, patience_s)
    start_s = attempt.started.since(attempt.launched) if attempt.started is not None else None
    return save_s + max(0.0, start_s or 0.0, note.begin_s or 0.0)


_MOST_WEIGHED = 3
"""The moves that one run weighs: the next run weighs others first."""
_MOST_ALPHA, _MOST_INTERVAL_S, _MOST_GAIN = 1000.0, 3600.0, 1e9


@dataclass(frozen=True, slots=True)
class SpeCon(Planner):
    """Move converged jobs to devices with less to do. It runs beside a planner that starts jobs."""

    policy: Policy
    recovery_policy: Policy
    alpha: float = 0.01
    """A job whose loss changes by less in an interval is slow (above 0, at most 1000). By
    default it is a part of the job's largest fall so far.

    A site whose jobs converge slower or faster than the paper's, which varies it."""
    interval_s: float = 30.0
    """Seconds between two runs (1 to 3600).

    A site whose jobs report seldom; the paper varies it."""
    min_gain: float = 2.0
    """A move must win this multiple of what it costs: saving, starting and warming up (above 0, at
    most 1e9: none is worth it).

    A site where moves fail or cost more than jobs say."""
    weight_progressing: float = fixed(2.0)
    """What a job that improves adds to its GPU's score."""
    weight_watching: float = fixed(1.5)
    """The same for a job that has become slow."""
    weight_converged: float = fixed(1.0)
    """The same for a job that has converged."""
    measure: str = "relative"
    """`relative`, or `paper`: the published algorithms, whatever a move wins.

    A site that wants the published algorithm."""
    name: str = "specon"
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.AttemptStarted})

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= _MOST_ALPHA:
            raise ValueError(f"alpha = {self.alpha:g} is not above 0 and at most {_MOST_ALPHA:g}")
        if not 1 <= self.interval_s <= _MOST_INTERVAL_S:
            raise ValueError(f"interval_s = {self.interval_s:g} is not from 1 to 3600 (seconds)")
        if not 0 < self.min_gain <= _MOST_GAIN:
            raise ValueError(
                f"min_gain = {self.min_gain:g} is not above 0 and at most {_MOST_GAIN:g}"
            )

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        kept = state or {"last": None, "count": 0, "jobs": {}, "remarks": {}}
        now = view.now
        passed_s = None if kept["last"] is None else now.since(moment(kept["last"]))
        if passed_s is not None and passed_s < 0:
            passed_s = None  # another boot, of which the records do not tell
        plan = Plan(state=kept)
        if passed_s is not None and passed_s < self.interval_s - 0.001:
            plan.wake_at = now.boot_s + self.interval_s - passed_s
            return plan
        plan.proposals = self._run(view, plan, judged=passed_s is not None)
        return plan

    def _run(self, view: View, plan: Plan, *, judged: bool) -> Iterator[Proposal]:
        """Run the algorithms. `judged` False: an interval only begins."""
        kept = plan.state
        running = list(view.running())
        notes = {
            int(job_id): Note(**note)
            for job_id, note in kept["jobs"].items()
            if view.job(int(job_id)) is not None
        }
        run = _Round(self, view, running, notes, kept["count"])
        if judged:
            yield from run.proposals()
        plan.state = {
            "last": plain_moment(view.now) if running else None,
            "count": run.count,
            "jobs": {str(job_id): note.plain() for job_id, note in notes.items()},
            "remarks": {
                str(job_id): note.category
                for job_id, note in notes.items()
                if note.gain is not None
            },
        }
        plan.wake_at = view.now.boot_s + self.interval_s if running else None

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()  # no job waits because of it


class _Round(Struct):
    """One run of the algorithms."""

    rule: SpeCon
    view: View
    running: Sequence[tuple[Job, Attempt]]
    notes: dict[int, Note]
    count: int
    there: dict[str, list[int]] = field(default_factory=dict)
    """The jobs of each device. One that moves counts at its target."""
    weighed: int = 0

    @property
    def published(self) -> bool:
        return self.rule.measure == "paper"

    def proposals(self) -> Iterator[Proposal]:
        asking = []
        self.there = {device.uuid: [] for device in self.view.devices()}
        for job, attempt in self.running:
            note = self.notes.setdefault(job.id, Note(attempt.serial))
            if note.serial != attempt.serial:
                note.begin(attempt.serial)
            if self._asks(job, attempt, note):
                asking.append((job, attempt))
            if job.target is not None or job.state is not JobState.STOPPING:
                for uuid in (job.target or attempt.placement).devices:
                    self.there.setdefault(uuid, []).append(job.id)
        asking.sort(key=lambda each: (self.notes[each[0].id].weighed, each[0].id))
        for job, attempt in asking:
            yield from self._reallocate(job, attempt)
        if self._all_converged():
            yield from self._rebalance()

    # ------------------------------------------------------------- Algorithm 3

    def _asks(self, job: Job, attempt: Attempt, note: Note) -> bool:
        """Judge a job, and return whether it asks for a move."""
        before, rule = note.category, self.rule
        if self.published:
            asks = not note.moved and judge_as_published(note, job, rule.alpha)
        else:
            asks = judge(note, job, attempt, rule.alpha, rule.interval_s)
        if note.category == CONVERGED != before:
            self.count += 1
            note.since = self.count
        return asks and not note.moved and _can_move(job, attempt)

    def _category(self, job_id: int) -> str:
        note = self.notes.get(job_id)
        return PROGRESSING if note is None else note.category

    def _all_converged(self) -> bool:
        """Return whether all jobs have converged: those that report a loss, unless published."""
        known = [self.notes[job.id] for job, _ in self.running if job.id in self.notes]
        if not self.published:
            known = [note for note in known if note.loss is not None]
        return bool(known) and all(note.category == CONVERGED for note in known)

    # ------------------------------------------------------------- Algorithm 4

    def _score(self, uuid: str) -> float:
        rule = self.rule
        weights = {
            PROGRESSING: rule.weight_progressing,
            WATCHING: rule.weight_watching,
            CONVERGED: rule.weight_converged,
        }
        return sum(weights[self._category(job_id)] for job_id in self.there[uuid])

    def _reallocate(self, job: Job, attempt: Attempt) -> Iterator[Proposal]:
        (here,) = attempt.placement.devices
        if self.weighed >= _MOST_WEIGHED:
            return
        growing = [each for each in self.there[here] if self._category(each) != CONVERGED]
        if len(growing) <= 1:
            return
        scores = {device.uuid: self._score(device.uuid) for device in self.view.devices()}
        if scores[here] <= min(scores.values()):
            self.notes[job.id].moved = self.published  # line 9
            return
        lower = [device for device in self.view.devices() if scores[device.uuid] < scores[here]]
        for score in sorted({scores[device.uuid] for device in lower}):
            lowest = [device for device in lower if scores[device.uuid] == score]
            targets = [(*self._place(job, attempt, each), each.index, each) for each in lowest]
            found = [target for target in targets if target[1] is not None]
            if not found:
                continue
            _, placement, _, target = min(found, key=lambda each: (each[0], each[2]))
            assert placement is not None
            if self._is_worth(job, attempt, target.uuid, placement):
                yield Migrate(job_id=job.id, placement=placement)
                self.notes[job.id].moved = self._is_moving(job.id, here, target.uuid)
            return

    # ------------------------------------------------------------- Algorithm 5

    def _rebalance(self) -> Iterator[Proposal]:
        devices = self.view.devices()
        count = {device.uuid: len(self.there[device.uuid]) for device in devices}
        each = sum(count.values()) // max(1, len(devices))
        idle = [device for device in devices if not count[device.uuid]]
        least = each if idle else each - 1
        targets = [device for device in idle or devices if count[device.uuid] < least]
        apart = {device.uuid for device in targets}
        latest = sorted(self.running, key=lambda one: -self._since(one[0]))
        for target in targets:
            for job, attempt in latest:
                if self.weighed >= _MOST_WEIGHED:
                    return
                if not self._may_rebalance(job, attempt, apart):
                    continue
                _, placement = self._place(job, attempt, target)
                if placement is None:
                    continue
                if not self._is_worth(job, attempt, target.uuid, placement):
                    continue
                yield Migrate(job_id=job.id, placement=placement)
                (here,) = attempt.placement.devices
                note = self.notes[job.id]
                note.rebalanced = self._is_moving(job.id, here, target.uuid)
                if note.rebalanced:
                    break

    def _since(self, job: Job) -> int:
        note = self.notes.get(job.id)
        return 0 if note is None else note.since

    def _may_rebalance(self, job: Job, attempt: Attempt, apart: set[str]) -> bool:
        note = self.notes.get(job.id)
        if note is None or note.rebalanced or note.category != CONVERGED:
            return False
        now = self.view.job(job.id)
        if now is None or not _can_move(now, attempt):
            return False
        return not apart.intersection(attempt.placement.devices)

    # ------------------------------------------------------------- moves

    def _place(self, job: Job, attempt: Attempt, target: Device) -> tuple[float, Placement | None]:
        """Return the target's SM activity, and how the job can be placed there; None: it cannot."""
        view, (here,) = self.view, attempt.placement.devices
        devices = {device.uuid: device for device in view.devices()}
        if here not in devices:
            return 1.0, None
        offer = view.offer(job, job.spec.roles[0], target.uuid)
        if offer.refusal is not None or offer.mode.whole_device:
            return 1.0, None
        if not self.published:
            less = view.rank(job, target) > view.rank(job, devices[here])
            other = target.name != devices[here].name
            if less or other or (offer.idle and view.head() is not None):
                return 1.0, None
        policy, recovery = self.rule.policy, self.rule.recovery_policy
        found = find_placement(view, job, policy, recovery, only=(target.uuid,)).placement
        if found is None or found.collocation.whole_device:
            return 1.0, None
        held = [r.mib for r in view.reservations(here) if r.job_id == job.id]
        most = max([found.shares[0].reserved_mib, *(mib for mib in held if mib is not None)])
        if not policy.overcommits and most > (offer.free_mib or 0):
            return 1.0, None
        shares = tuple(replace(share, reserved_mib=most) for share in found.shares)
        return 1.0 if offer.smact is None else offer.smact, replace(found, shares=shares)

    def _is_worth(self, job: Job, attempt: Attempt, there: str, placement: Placement) -> bool:
        """Return whether a move wins enough. Published: always."""
        if self.published:
            return True
        self.weighed += 1
        self.count += 1
        note = self.notes[job.id]
        note.weighed = self.count
        (here,) = attempt.placement.devices
        beside, others = self._members(here), self._members(there)
        mover = next((member for member in beside if member.job_id == job.id), None)
        if mover is None:
            return False
        mover = replace(mover, mps=placement.collocation is Collocation.MPS)
        cost_s = cost_of_move_s(job, attempt, note, self.view.settings)
        own_s, all_s = time_won(mover, beside, others, cost_s)
        return own_s >= 0 and all_s >= self.rule.min_gain * cost_s

    def _members(self, uuid: str) -> list[JobOnDevice]:
        """Return the jobs of a device, with their work left."""
        running = {job.id: (job, attempt) for job, attempt in self.running}
        found, pairs = [], [running[job_id] for job_id in self.there[uuid]]
        for job, attempt in pairs:
            smact = attempt.alone_smact
            smact = job.predicted(Quantity.SMACT) if smact is None else smact
            mps = attempt.placement.collocation is Collocation.MPS
            found.append(
                JobOnDevice(job.id, unknown_smact(mps) if smact is None else smact, mps, 1.0)
            )
        return [
            replace(
                member,
                left_s=work_left_s(job, attempt, self.notes.get(job.id), speed, self.view.now),
            )
            for member, speed, (job, attempt) in zip(found, speeds_of(found), pairs, strict=True)
        ]

    def _is_moving(self, job_id: int, here: str, there: str) -> bool:
        """Return whether the core has carried out a move, and count the job at its target."""
        job = self.view.job(job_id)
        if job is None or (job.target is None and self._runs_at(job_id, here)):
            return False
        self.there[here].remove(job_id)
        self.there[there].append(job_id)
        return True

    def _runs_at(self, job_id: int, uuid: str) -> bool:
        attempt = self.view.attempt(job_id)
        return attempt is not None and uuid in attempt.placement.devices


def _can_move(job: Job, attempt: Attempt) -> bool:
    """Return whether a job can be moved now: it can save, and shares one GPU."""
    return (
        job.state is JobState.RUNNING
        and job.target is None
        and attempt.target is None
        and attempt.stop is None
        and attempt.asked(ActionKind.CHECKPOINT) is None
        and job.spec.checkpoint.kind is not CheckpointKind.NONE
        and len(attempt.placement.shares) == 1
        and len(attempt.placement.devices) == 1
        and not attempt.placement.collocation.whole_device
    )
