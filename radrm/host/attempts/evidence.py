"""Tell from its folder what became of an attempt.

Theory of operation. `folder` has the states of an attempt and what proves each. The records only
grow: claim, then start.json, then exit.json. So what is read in that order may be late but never
wrong. Where no runner has the claim, `runner` takes it for the daemon, and nothing of the attempt
will ever run. A holder that does not say who it is yet is waited for while its lock is held, since
a dead process writes no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any

from msgspec import Struct

from radrm.core.records import Exit, Instant, Progress
from radrm.errors import StoreError, plain
from radrm.host.attempts import folder as attempts
from radrm.host.attempts import leftovers, redirected, saved
from radrm.host.attempts.job_process import TRY_LATER
from radrm.host.clock import Clock
from radrm.host.crossings import crossed
from radrm.host.processes.affinity import MOST_CPUS, listed
from radrm.host.processes.identity import Identity, boot_id, identify, open_pidfd
from radrm.host.wall import wall_s

_READING_S = 10.0
"""Real seconds for reading what jobs have saved."""
_ONE_READING_S = 4.0
"""Of these, for one job: a folder that does not answer must not keep others from being read."""
_READ_AT_ONCE = 8
LONGEST_LEFT = 3 * leftovers.LONGEST_TEXT
"""The work, the readers and the containers."""
_CLAIM_PATIENCE_S = 5.0
"""A claim is written microseconds after it is made, unless its runner is held up."""


class Void(Struct, frozen=True):
    """The attempt never began, and never will."""


class Started(Struct, frozen=True):
    """The job's main process exists."""

    at: Instant
    pid: int
    not_limited: str | None = None
    """Why the limits of CPUs or host memory could not be set."""
    cpu_list: str | None = None
    """The CPUs that it is bound to; None: it is not bound."""


class Running(Struct, frozen=True):
    """The attempt lives; `started` is None while its runner is still preparing it."""

    started: Started | None


class Saved(Struct, frozen=True):
    """What a job's checkpoint folder proves: the `progress` in its `saved.json`, and when its
    `newest` file was written. `reported`: its last report, which no daemon has taken. None:
    nothing."""

    progress: Progress | None = None
    newest: Instant | None = None
    reported: Progress | None = None


class TaskExit(Struct, frozen=True):
    """How a task of the attempt has ended, as its launcher says.

    `host_oom`: the kernel killed it at the job's limit of host memory.
    """

    role: str
    number: int
    exit: Exit
    host_oom: bool = False


class OuterEnd(Struct, frozen=True):
    """The step of a Slurm job has run the attempt, and says that the job ends: `cancelled`,
    `timeout` or `preempted`, since `at`. `why`: the same for users."""

    reason: str
    why: str
    at: Instant


class Freed(Struct, frozen=True):
    """Nothing of the attempt runs any more, so its devices can be read; its end follows."""


class Ended(Struct, frozen=True):
    """The attempt's last process is gone.

    `never_started` says why the command could not be run; `exit` is then that of a shell which
    cannot run it, if that is the reason. `tails` are the ends of its logs (standard error first),
    of an attempt that failed, or whose script may have lost that its program did.
    """

    at: Instant
    exit: Exit
    never_started: str | None
    started: Started | None
    tails: tuple[str, ...] = ()
    passing: bool = False
    """True when the server, not the job, kept it from starting: that may be over soon."""
    exceeded_mib: int | None = None
    """The host memory limit at which the kernel killed processes of it."""
    saved: Saved = Saved()
    tasks: tuple[TaskExit, ...] = ()
    """Of those that a launcher has told of."""
    outer: OuterEnd | None = None
    left: str | None = None
    """What still ran when its main process had ended, and was ended."""
    itself: Instant | None = None
    """When its main process ended without a stop."""
    redirected: tuple[tuple[str, str], ...] = ()
    """Path and end of files to which its script sent output."""
    after: tuple[int, ...] = ()
    """How many characters of each tail follow the attempt's own last write."""
    no_room: bool = False
    """The disk of a log was full when it had failed."""
    memory_killed: bool = False
    """It was killed, and meanwhile the kernel has killed processes as memory ran out."""
    try_later: bool = False
    """It never started, for files of its user cannot be reached now."""


class Lost(Struct, frozen=True):
    """The end was not recorded, and nothing runs any more. `began` False: nothing ever ran."""

    reason: str
    began: bool
    started: Started | None
    outer: OuterEnd | None = None


class State(Enum):
    """Of an attempt on this host: `folder` has what proves each."""

    VOID = "void"
    LAUNCHED = "launched"
    STARTED = "started"
    ORPHANED = "orphaned"
    STUCK = "stuck"
    ENDED = "ended"
    LOST = "lost"


class Found(Struct, frozen=True):
    """The state in which a daemon finds an attempt that it did not launch.

    `runner` is None where no record says who it is. `pidfd`, of who runs the attempt (its runner or
    its step), is the receiver's; None: it is dead.
    """

    state: State
    runner: Identity | None = None
    pidfd: int | None = None
    started: Started | None = None
    ended: Ended | None = None


class Evidence:
    """The records in the folder of one attempt. They may change while we look."""

    def __init__(self, folder: str, clock: Clock) -> None:
        self.folder = self.launch_folder = folder
        self._clock = clock
        self._started: Started | None = None

    def _read(self, name: str) -> tuple[attempts.Fields | None, str | None]:
        return attempts.read_record(self.folder, name)

    @property
    def is_there(self) -> bool:
        """True while the folder exists."""
        return os.path.isdir(self.folder)

    @property
    def is_of_earlier_boot(self) -> bool:
        """True if the folder is older than this boot, and no process of this boot has its claim.
        (A power failure may have spoiled each of its records.)"""
        with contextlib.suppress(OSError):
            booted_s = wall_s() - time.clock_gettime(time.CLOCK_BOOTTIME)
            if os.stat(self.folder).st_mtime < booted_s and not attempts.lock_held(self.folder):
                holder = attempts.Claim.holder(self.folder)
                return holder is None or holder[1].boot_id != boot_id()
        return False

    def started(self) -> Started | None:
        """What the start record says. It is written once, and read once."""
        record = None if self._started else self._read(attempts.START)[0]
        if record is not None:
            why = record.get("not_limited")
            why = why if isinstance(why, str) else None
            its = self._instant(record), record["pid"], why, _cpu_list(record)
            self._started = Started(*its)
        return self._started

    def ended(self) -> Ended | None:
        record, _ = self._read(attempts.EXIT)
        if record is None:
            return None
        exceeded = record.get("exceeded_mib")
        code = record["code"]
        if record["never_started"] is not None and record.get("shell_code") in (126, 127):
            code = record["shell_code"]
        how = Exit(code=code, signal=record["signal"])
        names = [name for name in ("stderr", "stdout") if record[f"{name}_tail"]]
        tails = tuple(record[f"{name}_tail"] for name in names)
        after = tuple(record.get(f"{name}_after") for name in names)
        return Ended(
            self._instant(record),
            how,
            record["never_started"],
            self.started(),
            tails,
            record.get("passing") is True,
            exceeded if type(exceeded) is int and exceeded > 0 else None,
            saved_in(record, self._clock),
            _tasks_in(record),
            left=_left_in(record),
            itself=self._itself_in(record),
            redirected=_redirected_in(record),
            try_later=record.get("shell_code") == TRY_LATER,
            after=tuple(count if type(count) is int and count > 0 else 0 for count in after),
            no_room=record.get("no_room") is True,
            memory_killed=type(kills := record.get("memory_kills")) is int and kills > 0,
        )

    def lost(self, event: str) -> Lost:
        """The end of an attempt that is over and has no usable exit record."""
        start, damaged_start = self._read(attempts.START)
        _, damaged_end = self._read(attempts.EXIT)
        began = start is not None or damaged_start is not None
        reason = f"{event} {'while it ran' if began else 'before it could begin'}"
        damage = "; ".join(filter(None, (damaged_start, damaged_end)))
        return Lost(f"{reason} ({damage})" if damage else reason, began, self.started())

    def job(self) -> Identity | None:
        """The job's main process, dead or alive."""
        start, _ = self._read(attempts.START)
        return Identity(start["pid"], start["start_ticks"], start["boot_id"]) if start else None

    def runner_named(self) -> Identity | None:
        """The runner that the start record names, dead or alive."""
        start, _ = self._read(attempts.START)
        if start is None:
            return None
        return Identity(start["runner_pid"], start["runner_start_ticks"], start["boot_id"])

    def runner(self) -> Identity | Void | None:
        """The attempt's runner, dead or alive; Void when there is none and never will be.

        Takes the claim, unless a runner has it. Returns None for a dead runner whose records
        do not say which process it was. Raises `StoreError` when that cannot be settled now.
        """
        start, damage = self._read(attempts.START)
        if start is not None:
            return Identity(start["runner_pid"], start["runner_start_ticks"], start["boot_id"])
        crossed("no start record found")
        me = identify(os.getpid())
        assert me is not None
        try:
            if damage is None and attempts.Claim.take(self.folder, attempts.DAEMON, me):
                return Void()
        except OSError as error:
            raise self._unsettled(str(error.strerror)) from error
        deadline = time.monotonic() + _CLAIM_PATIENCE_S
        while True:
            try:
                held = attempts.lock_held(self.folder)  # first: a dead runner writes no more
            except OSError as error:
                raise self._unsettled(str(error.strerror)) from error
            holder = attempts.Claim.holder(self.folder)
            if holder is not None:
                by, who = holder
                return who if by == attempts.RUNNER else Void()
            if not held:
                # A runner names itself before it begins anything.
                return Void() if damage is None else None
            if time.monotonic() > deadline:
                raise self._unsettled("its runner does not say who it is")
            time.sleep(0.001)

    def found(self, step: Identity | None) -> Found:
        """The state of the attempt, from what proves it; `step` is what runs it, if not its runner.

        Where no runner has the claim, this takes it. Raises `StoreError` when that cannot be
        settled now.
        """
        if not self.is_there:
            return Found(State.VOID)
        if (ended := self.ended()) is not None:
            return Found(State.ENDED, ended=ended)
        runner = self.runner()
        if isinstance(runner, Void):
            return Found(State.VOID)
        who = runner if step is None else step
        if who is not None and who.boot_id != boot_id():
            return Found(State.LOST, runner)
        pidfd = None if who is None else open_pidfd(who)
        if pidfd is None and (ended := self.ended()) is not None:  # its runner's last word
            return Found(State.ENDED, runner, ended=ended)
        started = self.started()
        state = State.LAUNCHED if started is None else State.STARTED
        return Found(State.ORPHANED if pidfd is None else state, runner, pidfd, started)

    def read_saved(self, seconds: float) -> Saved | None:
        """Read, as its user, what the job has saved; None if that takes more real seconds."""
        try:
            # A child of this process may be stuck in the kernel, and holds the pipe. `run` does
            # not wait for the pipe's end once the time is over.
            done = subprocess.run(
                [sys.executable, "-I", "-S", saved.__file__, self.launch_folder],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                timeout=seconds,
                check=False,
            )
            return saved_in(json.loads(done.stdout), self._clock)
        except (subprocess.TimeoutExpired, OSError, ValueError):
            return None

    def _unsettled(self, cause: str) -> StoreError:
        return StoreError(
            f"what became of the attempt in {self.folder} cannot be told: {cause}; "
            "fix that and start the daemon again"
        )

    def _itself_in(self, record: Mapping[str, Any]) -> Instant | None:
        """When the main process ended by itself, in an exit record."""
        ago_s = record.get("itself_ago_s")
        latest = min(record["boot_s"], record["wall_s"])
        if type(ago_s) is not float or not 0 <= ago_s <= latest:
            return None
        times = {"boot_s": record["boot_s"] - ago_s, "wall_s": record["wall_s"] - ago_s}
        return self._instant({**record, **times})

    def _instant(self, record: Mapping[str, Any]) -> Instant:
        return self._clock.noted(record["boot_id"], record["boot_s"], record["wall_s"])


def saved_in(record: Mapping[str, Any], clock: Clock) -> Saved:
    """Return what a record says about saved work. Its own time is on both clocks.

    The times of files are on the wall clock alone, so their age at the time of the record counts.
    """

    def moment(wall_s: object) -> Instant | None:
        if type(wall_s) is not float:
            return None
        age_s = max(0.0, record["wall_s"] - wall_s)
        times = record["boot_s"] - age_s, record["wall_s"] - age_s
        return clock.noted(record["boot_id"], *times)

    def progress_in(key: str) -> Progress | None:
        found = record.get(key)
        if not isinstance(found, dict) or not all(type(n) is float for n in found.values()):
            return None
        at = moment(found.get("at"))
        step, total, loss, work_done, epoch = (
            found.get(name) for name in ("step", "total", "loss", "work_done", "epoch")
        )
        return None if at is None else Progress(at, step, total, loss, work_done, epoch)

    return Saved(progress_in("saved"), moment(record.get("newest_s")), progress_in("reported"))


def _left_in(record: Mapping[str, Any]) -> str | None:
    """What was left, in an exit record; a step's record is its user's to write."""
    found = record.get("left")
    return plain(found[:LONGEST_LEFT]) or None if isinstance(found, str) else None


def _tasks_in(record: Mapping[str, Any]) -> tuple[TaskExit, ...]:
    """Return the tasks in an exit record; those that the runner has not checked are left out."""
    found = record.get("tasks")
    try:
        return tuple(
            TaskExit(str(role), int(number), Exit(code, signal), host_oom is True)
            for role, number, code, signal, host_oom in found or ()
        )
    except (TypeError, ValueError, OverflowError):
        return ()


def _redirected_in(record: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return path and end of the files in an exit record to which its script sent output."""
    try:
        pairs = tuple((path, end) for path, end in record.get(redirected.FIELD) or ())
    except (TypeError, ValueError):
        return ()
    return tuple(pair for pair in pairs if all(isinstance(text, str) for text in pair))


def read_saved(attempts_by_serial: Mapping[int, Evidence]) -> dict[int, Saved]:
    """Return what the jobs of these attempts have saved, by serial; a few are read at a time.

    What takes too long is left out.
    """
    if not attempts_by_serial:
        return {}
    until_s = time.monotonic() + _READING_S

    def read(evidence: Evidence) -> Saved | None:
        left_s = until_s - time.monotonic()
        return evidence.read_saved(min(left_s, _ONE_READING_S)) if left_s > 0 else None

    with ThreadPoolExecutor(_READ_AT_ONCE) as readers:
        found = zip(attempts_by_serial, readers.map(read, attempts_by_serial.values()), strict=True)
        return {serial: saved_work for serial, saved_work in found if saved_work is not None}


def _cpu_list(start: Mapping[str, Any]) -> str | None:
    """The CPUs in a start record, as the kernel lists them; None: none, or not of radrm."""
    found = start.get("cpu_list")
    if not isinstance(found, list) or not 0 < len(found) <= MOST_CPUS:
        return None
    sound = all(type(cpu) is int and 0 <= cpu < MOST_CPUS for cpu in found)
    return listed(found) if sound else None
