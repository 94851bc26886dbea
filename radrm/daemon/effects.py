"""Carry out the scheduler's actions: one handler for each kind of action.

Theory of operation. The decision that holds an action is on disk before `carry_out` gets the
action. So a daemon that is killed here leaves a store that lists what was under way. The next
daemon adopts the attempts (`attempts.py`) and repeats TERM; the core decides again, and asks again
for what is still pending. An action about an attempt that has ended meanwhile is dropped. An action
that fails becomes the event `ActionFailed`; the core decides what follows. One error is raised: a
defect after a launch has started its runner. The runner lives, and only an adoption finds its
state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.constraints.proposal import changes_cpus
from radrm.core.decision import Decision
from radrm.core.records import Attempt, Device, Job, Share
from radrm.core.words import Collocation, Resizing
from radrm.daemon.capping import Capping
from radrm.daemon.elastic import Resizes, placement_text, shares_text
from radrm.daemon.launches import cpus_of, devices_of, memory_of, most_memory_of, weight_of
from radrm.daemon.launching import plan_launch, task_environments
from radrm.daemon.mps import Stops
from radrm.daemon.parts import Parts
from radrm.errors import RadrmError, Refused
from radrm.estimators.history import WAITING
from radrm.host.attempts.elastic import names
from radrm.host.attempts.elastic.folders import Done
from radrm.host.clock import boot_id
from radrm.host.crossings import crossed
from radrm.host.mps.interface import NoClientNow
from radrm.host.storage.runs import Run
from radrm.host.storage.submitted import Submission
from radrm.host.transient import is_transient

log = logging.getLogger("radrm")


class ServerReady(Struct, frozen=True):
    """From another thread: this launch need not wait for its MPS server any more."""

    action: act.Launch


def _is_told(setbacks: int) -> bool:
    """Return whether the log tells of an attempt: of those of a job that come to nothing one after
    another it tells the first, second, fourth, eighth, and so on. There may be thousands of jobs
    whose home is away."""
    return setbacks & (setbacks - 1) == 0


def _named(action: act.Action) -> str:
    """An action for the log: its record names all shares and devices."""
    job_id: int | None = getattr(action, "job_id", None)
    kind = type(action).__name__
    return kind if job_id is None else f"{kind} of job {job_id}"


class Effects:
    """Used by the loop's thread. `post` takes news from any thread."""

    def __init__(
        self,
        parts: Parts,
        resizes: Resizes,
        stops: Stops,
        read_soon: Callable[[float], None],
        post: Callable[[ServerReady | ev.Event], None],
    ) -> None:
        self._clock, self._scheduler = parts.devices.clock, parts.scheduler
        self._store = parts.records.store
        self._launcher, self._site = parts.attempts.launcher, parts.attempts.site
        self._steps = parts.attempts.steps
        self._estimation, self._planning = parts.estimates.estimation, parts.estimates.planning
        self._stops = stops
        self._read_soon = read_soon
        self._post = post
        self.capping = Capping(
            self._clock, self._scheduler, self._launcher, parts.devices.caps, post
        )
        self._waited: set[int] = set()
        """The serials of launches that have waited for their MPS server."""
        self._handlers: dict[type[act.Action], Callable[[Any], ev.Event | None]] = {
            act.Launch: self._launch,
            act.Terminate: self._terminate,
            act.Kill: self._kill,
            act.SendSignal: self._send_signal,
            act.TakeCheckpoint: self._take_checkpoint,
            act.Resize: resizes.begin,
            act.ApplyShares: self._apply_shares,
            act.RaiseCaps: self.capping.raise_caps,
            act.EstimateJob: self._estimate,
            act.Think: self._think,
        }

    def carry_out(self, action: act.Action) -> list[ev.Event]:
        """Carry out one action. Return an event if it fails, or is done at once; other success
        reports itself later."""
        if self._is_over(action):
            return []
        try:
            crossed("action begins", type(action).__name__)
            done = self._handlers[type(action)](action)
            crossed("action done", type(action).__name__)
        except Exception as error:
            reason = str(error)
            if isinstance(action, act.Launch) and isinstance(error, NoClientNow):
                # It concerns these GPUs alone, so other launches go on.
                log.info("job %d returns to its queue: %s", action.job_id, error)
                now, job_id, serial = self._clock.now(), action.job_id, action.serial
                return [ev.LaunchVoided(at=now, job_id=job_id, serial=serial, reason=reason)]
            if isinstance(error, (RadrmError, OSError, ValueError)):
                log.error("%s failed: %s", _named(action), error)
            elif isinstance(action, act.Launch) and self._launcher.is_live(action.serial):
                raise
            else:
                log.exception("%s failed, by a defect of radrm", _named(action))
                reason = f"radrm failed: {type(error).__name__}: {error}; see the daemon's log"
            now, transient = self._clock.now(), is_transient(error)
            return [ev.ActionFailed(at=now, action=action, reason=reason, transient=transient)]
        return [] if done is None else [done]

    def go_on(self, waited: ServerReady) -> list[ev.Event]:
        """Carry out a launch that has waited for its MPS server, unless it was stopped."""
        action = waited.action
        if self._is_over(action):
            return []
        if self._attempt(action).stop is not None:
            now = self._clock.now()
            return [ev.LaunchVoided(at=now, job_id=action.job_id, serial=action.serial)]
        self._waited.add(action.serial)
        try:
            return self.carry_out(action)
        finally:
            self._waited.discard(action.serial)

    def begin_readings(self, decisions: Iterable[Decision]) -> None:
        """Have the devices read if one of these decisions asks for it. That changes nothing, so it
        needs no saved decision: the devices are read while it is saved."""
        actions = [action for decision in decisions for action in decision.actions]
        wanted = [each.after_s for each in actions if isinstance(each, act.TakeReadings)]
        if wanted:
            self._read_soon(max(wanted))

    def delayed(self) -> ev.Event:
        """Return the event that says that the actions to come have waited for the store."""
        return ev.ActionsDelayed(at=self._clock.now())

    def learned(self, runs: Sequence[Run]) -> list[ev.Event]:
        """Return what the runs of ended attempts, now stored, show of the jobs that wait."""
        waiting = self._scheduler.snapshot.first(WAITING)
        try:
            found = self._estimation.again(runs, waiting, self._clock.now())
        except RadrmError as error:
            log.warning("waiting jobs keep their predictions: %s", error)
            return []
        return [] if found is None else [found]

    def _is_over(self, action: act.Action) -> bool:
        """True if the job or attempt of the action has ended since the decision."""
        now = self._scheduler.snapshot
        if isinstance(action, act.AttemptAction):
            return now.live_attempt(action.job_id, action.serial) is None
        return isinstance(action, act.EstimateJob) and now.job(action.job_id) is None

    def clear(self, record: Attempt | Job) -> None:
        """Remove the folders of an attempt or a job whose end is stored."""
        if isinstance(record, Attempt):
            if not self._launcher.is_live(record.serial):
                self._launcher.forget(record.serial)
                self._site.elastic.remove(record.serial)
            self._site.reports.close(record.serial)
        elif self._scheduler.snapshot.job(record.id) is None:
            self._site.checkpoints.remove_empty(record)

    def ended_by(self, decision: Decision) -> Iterator[Attempt | Job]:
        """Return the records of what has ended in a saved decision, and log these ends."""
        over = {r.id for r in decision.changed if isinstance(r, Job) and r.state.final}
        for record in decision.changed:
            if isinstance(record, Job):
                self._steps.note(record)
            if isinstance(record, Attempt) and record.ended is not None:
                self._launcher.stored(record.serial)
                self._site.reports.end(record.serial)
                yield record
                job = self._scheduler.snapshot.job(record.job_id)
                # Else the job's line says it.
                if job is not None and job.id not in over and _is_told(job.setbacks):
                    how = "never began" if record.outcome is None else record.outcome.value
                    why = (record.reason or "").removeprefix(f"{how}: ")
                    said = f"{how}: {why}" if why else how
                    log.info("job %s, attempt %d: %s", job.label, record.number, said)
            elif isinstance(record, Job) and record.state.final:
                self._estimation.forget(record.id)
                yield record
                why = f": {record.reason}" if record.reason else ""
                log.info(
                    "job %s (%s) %s%s", record.label, record.spec.name, record.state.value, why
                )

    # ------------------------------------------------------------- handlers

    def _launch(self, action: act.Launch) -> None:
        site, job = self._site, self._job(action.job_id)
        if self._waits_for_server(action, job):
            return
        submission = self._store.submissions.of_job(action.job_id)
        devices = devices_of(self._scheduler.snapshot, action.placement.devices)
        progress = site.reports.place(action.serial)
        plan = plan_launch(action, job, submission, devices, site, progress)
        plan = self.capping.with_caps(plan, action)

        def ready() -> None:
            """What takes time, and only the job needs."""
            site.checkpoints.make(job, submission.uid, submission.gid)
            site.reports.open(job, action.serial)
            if job.spec.resizing is Resizing.LIVE:
                self._make_folder(action, job, submission, devices)
            self._store.sync()

        crossed("launch planned")
        self._launcher.launch(plan, ready)
        if _is_told(job.setbacks + 1):
            log.info(
                "job %s (%s) starts on %s, %s",
                job.label,
                job.spec.name,
                ", ".join(str(d.index) for d in devices) or "no device",
                action.placement.collocation.value,
            )

    def _waits_for_server(self, action: act.Launch, job: Job) -> bool:
        """Return whether an MPS client must wait for its server; `go_on` follows then."""
        mps, placement = self._site.mps, action.placement
        if mps is None or placement.collocation is not Collocation.MPS:
            return False
        if action.serial in self._waited:
            return False
        ready = ServerReady(action)
        return mps.wait_for_server(placement.devices, job.spec.uid, lambda: self._post(ready))

    def _make_folder(
        self, action: act.Launch, job: Job, submission: Submission, devices: Sequence[Device]
    ) -> None:
        """Make the folder of an attempt whose tasks can change, with its first placement."""
        site, placement = self._site, action.placement
        its = task_environments(job, placement, action.cap_mib, submission, devices, site)
        grace_s = self._clock.real_s(site.grace_s)
        text = placement_text(placement, 1, its, grace_s, None, boot_id())
        files = {names.placement(1): text}
        site.elastic.make(action.serial, submission.uid, submission.gid, files)

    def _terminate(self, action: act.Terminate) -> None:
        self._stops.terminate(self._job(action.job_id), self._attempt(action))

    def _kill(self, action: act.Kill) -> None:
        self._stops.kill(self._attempt(action))

    def _send_signal(self, action: act.SendSignal) -> None:
        self._launcher.signal(self._attempt(action).serial, action.number)

    def _take_checkpoint(self, action: act.TakeCheckpoint) -> None:
        wanted = self._job(action.job_id).spec.checkpoint

        def fail(why: str) -> None:  # from another thread
            log.info("job %d cannot save its work now: %s", action.job_id, why)
            self._post(ev.ActionFailed(at=self._clock.now(), action=action, reason=why))

        self._launcher.ask(self._attempt(action).serial, wanted.number, fail)

    def _apply_shares(self, action: act.ApplyShares) -> ev.SharesApplied:
        """Change the CPU cap and weight, and the limit of host memory, which only grows.

        The core keeps an SM fraction for the next attempt. `radrun` divides the CPUs of an attempt
        among its tasks; it can do so also where no control group limits them.
        """
        attempt, job, shares = self._attempt(action), self._job(action.job_id), action.shares
        serial, before = attempt.serial, attempt.placement.shares
        if changes_cpus(attempt, shares):
            live = job.spec.resizing is Resizing.LIVE
            try:
                self._launcher.set_shares(serial, cpus_of(shares), weight_of(shares))
            except Refused:
                if not live or weight_of(shares) != weight_of(before):
                    raise
            if live:
                self._tell_shares(job, serial, shares)
        mib, most = memory_of(job, shares), most_memory_of(job)
        grows = mib is not None and mib > (memory_of(job, before) or mib)
        if mib is not None and grows and not self._launcher.set_memory(serial, mib, most):
            raise Refused("its limit of host memory cannot be changed")
        return ev.SharesApplied(
            at=self._clock.now(), job_id=action.job_id, serial=serial, shares=shares
        )

    def _tell_shares(self, job: Job, serial: int, shares: Sequence[Share]) -> None:
        """Tell `radrun` the CPUs of each task."""

        def then(done: Done | None) -> None:  # in another thread
            error = done[0].get("error") if done else "no answer"
            if error is not None:
                log.warning("job %s is not told its CPUs: %s", job.label, error)

        self._site.elastic.act(serial, [("put", names.SHARES, shares_text(shares))], then)

    def _estimate(self, action: act.EstimateJob) -> None:
        self._estimation.begin(self._job(action.job_id))

    def _think(self, action: act.Think) -> None:
        limit_s = self._clock.real_s(action.limit_s)
        self._planning.ask(action, self._scheduler.snapshot, limit_s)

    # ------------------------------------------------------------- what an action is about

    def _job(self, job_id: int) -> Job:
        job = self._scheduler.snapshot.job(job_id)
        if job is None:
            raise RadrmError(f"job {job_id} has ended")
        return job

    def _attempt(self, action: act.AttemptAction) -> Attempt:
        attempt = self._scheduler.snapshot.attempt(action.job_id)
        if attempt is None:
            raise RadrmError(f"job {action.job_id} has no live attempt")
        return attempt
