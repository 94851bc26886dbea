"""Attempts whose tasks change while they run: what the daemon tells `radrun`, and believes of it.

The main process decides: where it ends with 0, all tasks have, because a script can go on after a
program that failed. Where it fails, the launcher's word tells which task did.

Theory of operation. A `Resize` becomes a file, `placement-G.json`, in the attempt's folder, and
`radrun` answers by another one (`host/attempts/elastic/names.py` has the files). All of it happens
in processes of the job's user; here, on the loop's thread, only their results count. One attempt
has at most one such process at a time. While a resize is pending, one looks for the answer each
second; a datagram that announces it makes the look come at once.

Who decides. Before `radrun` stops the old tasks, it makes `begun-G`. To withdraw, the daemon makes
that file: the first one decides. So a withdrawn resize never begins, and one that has begun is
never undone; then the answer is waited for, until the core stops the attempt.

What is believed. An answer is a claim of the job's user. So an attempt that leaves a GPU, the old
one after a resize or the new one after a failure, counts as gone only when a later reading shows no
process of it there. One that stays for `RELEASE_S` is stopped: nothing of what it claims is
certain. Where no reading tells, the claim counts, because an unread GPU takes no job.

What a kill of the daemon leaves. The core asks for a pending resize again, with the same
generation. The file of that generation is kept as it is, and an answer that is there counts at
once. So nothing here is stored.

    killed before placement-G       it is written now
    between it and the answer       the answer comes, or is there already
    between begun-G and the answer  the same; a withdrawal finds that it is `radrun`'s

What cannot begin leaves the placement before, where `radrun` cannot know of it. Asked for by an
earlier daemon, it may have begun: it is withdrawn, which tells. Where the folder is gone, nothing
tells any more, and the attempt is stopped.
"""

from __future__ import annotations

import json
import logging
import queue
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.lifecycle.memory import cap_of
from radrm.core.records import Attempt, Caps, Exit, Instant, Job, Placement, Share, by_task
from radrm.core.words import ActionKind, Resizing
from radrm.daemon.launches import cpus_of, devices_of, memory_of, most_memory_of, weight_of
from radrm.daemon.launching import cpus_near, task_environments
from radrm.daemon.parts import Parts
from radrm.errors import RadrmError, Refused
from radrm.host.attempts.elastic import names
from radrm.host.attempts.elastic.answers import read_answer
from radrm.host.attempts.elastic.folders import Done, Step
from radrm.host.attempts.elastic.names import MOST_BYTES, MOST_TASKS, encode
from radrm.host.attempts.evidence import Ended
from radrm.host.clock import boot_id
from radrm.host.crossings import crossed
from radrm.host.processes.affinity import listed


def placement_text(
    placement: Placement,
    generation: int,
    environments: Mapping[tuple[str, int], Mapping[str, str]],
    grace_s: float,
    due_boot_s: float | None,
    boot_id: str,
) -> str:
    """Return the text of generation `generation`.

    Real seconds: `grace_s` from TERM to KILL, and `due_boot_s` since boot, after which `radrun`
    must not begin to change tasks any more (None: it starts them). Raises `Refused` if it is too
    long.
    """
    tasks = [
        {
            "role": role,
            "task": number,
            "gpus": [s.device for s in shares if s.device is not None],
            "cpus": shares[0].cpus,
            "environment": dict(environments[role, number]),
        }
        for (role, number), shares in by_task(placement.shares).items()
    ]
    text = encode(
        {
            "generation": generation,
            "grace_s": grace_s,
            "due_boot_s": due_boot_s,
            "boot_id": boot_id,
            "tasks": tasks,
        }
    )
    if len(text) > MOST_BYTES or len(tasks) > MOST_TASKS:
        raise Refused(
            f"{len(tasks)} tasks are more than one launcher can be told of; ask for fewer"
        )
    return text


def shares_text(shares: Iterable[Share]) -> str:
    """Return the text that says which CPUs each task has now."""
    tasks = [
        {"role": role, "task": number, "cpus": each[0].cpus}
        for (role, number), each in by_task(shares).items()
    ]
    return encode({"tasks": tasks})


def exits_of(attempt: Attempt, ended: Ended) -> tuple[Exit, ...]:
    """Return one exit for each task of an attempt, in their order; none if it never started, but
    for a program that cannot be run."""
    if ended.never_started is not None and ended.exit.code is None:
        return ()
    told = {(each.role, each.number): each.exit for each in ended.tasks}
    found = tuple(told.get((t.role, t.number), Exit()) for t in attempt.tasks)
    failed = any(each.shell_code for each in found)
    if ended.exit.ok or not failed:
        return (ended.exit,) * len(attempt.tasks)
    return found


def host_oom_of(job: Job, attempt: Attempt, ended: Ended) -> str | None:
    """Return the role of a task that the kernel killed at the job's limit of host memory.

    None: none was. A launcher may have replaced such a task: if the job ended well, all is well.
    """
    if job.spec.resizing is Resizing.LIVE and ended.exit.ok:
        return None
    told = next((each.role for each in ended.tasks if each.host_oom), None)
    if ended.exceeded_mib is None:
        return None
    return told if told in {task.role for task in attempt.tasks} else attempt.tasks[0].role


log = logging.getLogger("radrm")

LOOK_S = 1.0
"""Real seconds between two looks for an answer."""
RELEASE_S = 5.0
"""Real seconds for which an attempt may be seen on a GPU that it has given back."""

_MOST_EARLIER = 100
"""Generations whose files are removed at once: those since the last resize that has worked."""


class _Known(Struct):
    """The answer to a resize: `failed` is why the placement before stays; None: the target runs.

    `gives_up`: the devices on which nothing of the attempt may be left. `at`: when it was found.
    """

    failed: str | None
    gives_up: tuple[str, ...]
    at: Instant


class _Resize(Struct, eq=False):
    """A resize under way. `text` is the placement, until it is written."""

    action: act.Resize
    before: Placement
    text: str | None
    next_s: float
    busy: bool = False
    withdraws: str | None = None
    """Why it is withdrawn; None: it is not."""
    begun: bool = False
    """It is known that `radrun` has begun, so it cannot be withdrawn."""
    known: _Known | None = None


class Resizes:
    """Used by the loop's thread. `wake` ends its wait; `read_soon` asks for readings."""

    def __init__(
        self, parts: Parts, wake: Callable[[], None], read_soon: Callable[[], None]
    ) -> None:
        self._clock, self._scheduler = parts.devices.clock, parts.scheduler
        self._store = parts.records.store
        self._launcher, self._site = parts.attempts.launcher, parts.attempts.site
        self._wake = wake
        self._read_soon = read_soon
        self._since_s = self._clock.now().boot_s
        """What was asked for before is an earlier daemon's."""
        self._pending: dict[int, _Resize] = {}
        self._done: queue.SimpleQueue[tuple[_Resize, Done | None]] = queue.SimpleQueue()

    # ------------------------------------------------------------- ask

    def begin(self, action: act.Resize) -> ev.Event | None:
        """Carry out an action; `events` has its result, unless it is returned. Raises `RadrmError`
        if that is impossible, and the placement before stays for certain.

        The same action again, after a restart or to withdraw it, begins nothing twice.
        """
        snapshot = self._scheduler.snapshot
        job, attempt = snapshot.job(action.job_id), snapshot.attempt(action.job_id)
        assert job is not None and attempt is not None  # `Effects` has looked
        if job.spec.resizing is not Resizing.LIVE:
            raise Refused("its launcher is not radrun, so its tasks cannot change while it runs")
        found, asked = self._pending.get(action.serial), attempt.asked(ActionKind.RESIZE)
        if found is not None and found.action.generation != action.generation:
            found = None
        earlier = asked is not None and asked.asked.boot_s < self._since_s
        if not self._site.elastic.exists(action.serial):
            reason = "its folder for radrun was removed, so its tasks cannot change"
            if found is None and not earlier and not action.withdrawn:
                raise Refused(reason)  # `radrun` knows of no resize, and begins none
            now = self._clock.now()
            return ev.ActionFailed(at=now, action=action, reason=reason, stops=True)
        withdraws = "radrun has not changed its tasks in time" if action.withdrawn else None
        if found is None:
            text = None
            try:
                text = None if action.withdrawn else self._prepare(action, job, attempt)
            except (RadrmError, OSError, ValueError) as error:
                if not earlier:
                    raise
                withdraws = str(error)
            found = _Resize(action, attempt.placement, text, 0.0)
            self._pending[action.serial] = found
            self._limit(job, action.serial, attempt.placement, action.target)
        found.action = action
        if withdraws is not None:
            self._withdraw(found, withdraws)
        self._look(found)
        return None

    def _prepare(self, action: act.Resize, job: Job, attempt: Attempt) -> str:
        """Let the job open the devices of its target, and return the text of that."""
        self._isolate(action.serial, attempt.placement, action.target)
        text = self._text(action, job)
        log.info("job %s gets %s", job.label, _shown(action.target))
        return text

    def _text(self, action: act.Resize, job: Job) -> str:
        """The text of the target."""
        site, target = self._site, action.target
        submission = self._store.submissions.of_job(job.id)
        cap_mib = cap_of(job, target, self._caps(action))
        devices = devices_of(self._scheduler.snapshot, target.devices)
        return placement_text(
            target,
            action.generation,
            task_environments(job, target, cap_mib, submission, devices, site),
            self._clock.real_s(site.grace_s),
            self._clock.real_boot_s(action.due_boot_s),
            boot_id(),
        )

    def _caps(self, action: act.Resize) -> Caps:
        attempt = self._scheduler.snapshot.live_attempt(action.job_id, action.serial)
        return attempt.caps if attempt is not None else ()

    # ------------------------------------------------------------- watch

    @property
    def due_s(self) -> float | None:
        """Boot-time second of the next look; None while none is to come."""
        return min((r.next_s for r in self._pending.values() if not r.busy), default=None)

    def look_soon(self, serials: Iterable[int]) -> None:
        """Look at once for the answers of these attempts, which say that they have answered."""
        for serial in serials:
            if serial in self._pending:
                self._pending[serial].next_s = 0.0

    def events(self) -> list[ev.Event]:
        """Return the results of resizes that are known now, and look where that is due."""
        for _ in range(self._done.qsize()):
            self._take(*self._done.get_nowait())
        found, now = [], self._clock.now()
        for serial, resize in list(self._pending.items()):
            if not self._is_pending(resize):
                del self._pending[serial]
                continue
            if resize.known is None:
                if now.boot_s >= resize.next_s:
                    self._look(resize)
                continue
            resize.next_s = now.boot_s + LOOK_S * self._clock.scale
            event = self._result(resize, resize.known, now)
            if event is not None:
                del self._pending[serial]
                found.append(event)
        return found

    def _is_pending(self, resize: _Resize) -> bool:
        """True while the core waits for the answer."""
        action = resize.action
        attempt = self._scheduler.snapshot.live_attempt(action.job_id, action.serial)
        asked = attempt is not None and attempt.asked(ActionKind.RESIZE) is not None
        return asked and attempt is not None and attempt.target == action.target

    def _look(self, resize: _Resize) -> None:
        """Take the next steps in the attempt's folder, unless earlier ones are under way."""
        if resize.busy or resize.known is not None:
            return
        generation = resize.action.generation
        steps: list[Step] = []
        if resize.withdraws is not None and not resize.begun:
            name = names.begun(generation)
            steps += [("keep", name, names.encode({"by": names.RADRM})), ("read", name)]
        elif resize.text is not None:
            steps.append(("keep", names.placement(generation), resize.text))
        steps.append(("read", names.resized(generation)))
        resize.busy = True
        resize.next_s = self._clock.now().boot_s + LOOK_S * self._clock.scale

        def then(done: Done | None) -> None:  # in another thread
            self._done.put((resize, done))
            self._wake()

        self._site.elastic.act(resize.action.serial, steps, then)

    def _take(self, resize: _Resize, done: Done | None) -> None:
        """Take the answers to the steps of one look. None: nothing is known; look again."""
        resize.busy = False
        if done is None or resize.known is not None:
            return
        *steps, read = done
        generation, target = resize.action.generation, resize.action.target
        text, error = read.get("text"), read.get("error")
        if isinstance(text, str):
            self._note(resize, read_answer(text, generation, target).failed)
            return
        if len(steps) == 2:
            kept, begun = steps
            if kept.get("new") is True or _is_ours(begun.get("text")):
                self._note(resize, resize.withdraws)
                return
            resize.begun = "error" not in kept
        elif steps:
            resize.text = None
            crossed("placement written")
            if "error" in steps[0]:
                self._withdraw(resize, f"its folder takes no placement: {steps[0]['error']}")
        if error is not None:
            why = f"radrun's answer cannot be read: {error}"
            if resize.begun:
                self._note(resize, why)
            else:
                self._withdraw(resize, why)

    @staticmethod
    def _withdraw(resize: _Resize, why: str) -> None:
        """Have the next look withdraw a resize, which comes at once."""
        if resize.withdraws is None:
            resize.withdraws, resize.next_s = why, 0.0
            crossed("resize withdrawn")
            log.info("job %d: its resize is withdrawn if it can be: %s", resize.action.job_id, why)

    def _note(self, resize: _Resize, failed: str | None) -> None:
        """Note the answer; the devices that the attempt leaves by it are read soon."""
        before, after = set(resize.before.devices), set(resize.action.target.devices)
        gives_up = sorted(before - after if failed is None else after - before)
        resize.known = _Known(failed, tuple(gives_up), self._clock.now())
        crossed("resize answered")
        if gives_up:
            self._read_soon()

    # ------------------------------------------------------------- believe

    def _result(self, resize: _Resize, known: _Known, now: Instant) -> ev.Event | None:
        """Return the event of an answer once it can be believed; None: not yet."""
        action = resize.action
        late = now.boot_s - known.at.boot_s > RELEASE_S * self._clock.scale
        held = [uuid for uuid in known.gives_up if self._is_held(uuid, action.serial, known.at)]
        unread = [uuid for uuid in known.gives_up if not self._is_read(uuid, known.at)]
        if (held or unread) and not late:
            return None
        if held:
            where = ", ".join(held)
            reason = f"it has processes on {where}, {RELEASE_S:.0f} s after it gave that GPU back"
            log.warning("job %d is stopped: %s", action.job_id, reason)
            return ev.ActionFailed(at=now, action=action, reason=reason, stops=True)
        job, cpu_list = self._scheduler.snapshot.job(action.job_id), None
        if job is not None:
            placement = action.target if known.failed is None else resize.before
            self._limit(job, action.serial, placement)
            cpu_list = self._cpu_list(job, placement)
            try:
                self._isolate(action.serial, placement)
            except Refused as error:
                log.warning("job %d may open GPUs that it gave back: %s", action.job_id, error)
        if known.failed is not None:
            log.warning("job %d keeps its tasks: %s", action.job_id, known.failed)
            return ev.ActionFailed(at=now, action=action, reason=known.failed)
        crossed("resize believed")
        serial, target = action.serial, action.target
        self._site.elastic.act(
            serial, [("drop", *_files_before(action.generation))], lambda _: None
        )
        return ev.Resized(
            at=now,
            job_id=action.job_id,
            serial=serial,
            target=target,
            generation=action.generation,
            cpu_list=cpu_list,
        )

    def _is_held(self, uuid: str, serial: int, since: Instant) -> bool:
        """Return whether the last reading since then shows the attempt on a device."""
        seen = self._scheduler.snapshot.device(uuid)
        reading = seen.reading if seen is not None else None
        if reading is None or reading.error is not None or reading.at.boot_s <= since.boot_s:
            return False
        return any(each.serial == serial for each in reading.attempts or ())

    def _is_read(self, uuid: str, since: Instant) -> bool:
        """Return whether a device was read since then, or has vanished."""
        seen = self._scheduler.snapshot.device(uuid)
        if seen is None or seen.vanished:
            return True
        reading = seen.reading
        return reading is not None and reading.error is None and reading.at.boot_s > since.boot_s

    # ------------------------------------------------------------- limits

    def _cpu_list(self, job: Job, placement: Placement) -> str | None:
        """The CPUs near the GPUs of a placement, to which `radrun` binds its tasks; None: all."""
        try:
            options = self._store.submissions.of_job(job.id).job_file().options
            devices = devices_of(self._scheduler.snapshot, placement.devices)
            cpus = cpus_near(placement.shares, devices, options, self._site)
        except RadrmError:
            return None  # a device is gone, so its tasks are stopped anyway
        return None if cpus is None else listed(cpus)

    def _isolate(self, serial: int, *placements: Placement) -> None:
        """Let the attempt open the devices of these placements, and no others. Raises `Refused`."""
        group = self._launcher.group_of(serial)
        uuids = dict.fromkeys(uuid for each in placements for uuid in each.devices)
        seen = [self._scheduler.snapshot.device(uuid) for uuid in uuids]
        if group is not None:
            self._site.isolation.change(group, [each.device for each in seen if each is not None])

    def _limit(self, job: Job, serial: int, *placements: Placement) -> None:
        """Give the job the limits of the largest of these placements, as far as it can have any."""
        cpus = [cpus_of(each.shares) for each in placements]
        most = None if None in cpus else max(each for each in cpus if each is not None)
        memory = [memory_of(job, each.shares) for each in placements]
        try:
            self._launcher.set_shares(serial, most, weight_of(placements[-1].shares))
        except Refused as error:
            log.debug("the CPUs of job %s are not limited: %s", job.label, error)
        if None not in memory:
            mib = max(each for each in memory if each is not None)
            self._launcher.set_memory(serial, mib, most_memory_of(job))


def _files_before(generation: int) -> list[str]:
    """The files of earlier generations, which mean nothing once this one runs."""
    kinds = names.placement, names.begun, names.resized
    earlier = range(max(1, generation - _MOST_EARLIER), generation)
    return [name(number) for number in earlier for name in kinds]


def _is_ours(text: object) -> bool:
    """Return whether a `begun-G` is of a daemon."""
    try:
        fields = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.get("by") == names.RADRM


def _shown(target: Placement) -> str:
    """The tasks of a placement, for the log."""
    return ", ".join(f"{count} of {role}" for role, count in target.tasks().items())
