"""The small program that runs one attempt and outlives the daemon.

    python -I -S runner.py FOLDER

Theory of operation. The runner takes the attempt's lock, then its claim; if another process has the
claim, it ends without a trace. It forks the job, whose process is born in its control group
(`clone_into`) and waits; writes start.json; and lets the job begin. So no job runs that no record
names, and a runner that is killed in between leaves a child whose pipe ends and that exits. A fork
does all of this up to start.json while the daemon syncs its decision, and waits for `BEGIN`. It
passes signals on, and waits for the main process, or with `--background=wait` for all. It ends what
that has left (`leftovers`), and writes how the job ended. Then it ends, or as a fork runs another
attempt of that user (`forker`). With a gate it begins none of this before the daemon has set up the
job's control group; one that died did not, so the launch is void. A full disk must not lose the
exit record: the lock file keeps room for it. The runner outlives the daemon, so it needs the
standard library alone, and holds nothing of the daemon's but its standard output: a byte there says
that start.json or exit.json can be read, or that nothing of the job runs any more (`FREED`).

    SIGTERM, SIGINT   ask all processes of the job to end (TERM), in the order of `Stop`
    SIGUSR2           end them all (KILL)
    SIGRTMIN + N      send signal N to those that have a handler for it

All other signals are blocked. `attempts` says what the files in FOLDER prove.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import select
import signal
import stat
import sys
import time
from functools import cache, partial

if not __package__:
    # Run by its path, isolated: the package that it belongs to has to be found.
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import job_process, saved, tails
from radrm.host.attempts.elastic import exits
from radrm.host.crossings import crossed
from radrm.host.processes import affinity, cgroups, client_work
from radrm.host.processes.calls import clone_into
from radrm.host.processes.identity import Identity, identify, send_signal
from radrm.host.processes.limits import Limits
from radrm.host.processes.procfs import are_in_turn, forks, memory_kills
from radrm.host.processes.stop import LOOK_S, Stop
from radrm.host.processes.tree import (
    attempt_processes,
    attempt_stats,
    become_subreaper,
    kill_tree,
    signal_catchers,
)
from radrm.host.storage.files import write_all
from radrm.host.transient import is_transient
from radrm.host.wall import wall_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.host.attempts.folder import Fields
    from radrm.host.processes.procfs import Stat

PASSED_ON = range(signal.SIGRTMIN + 1, signal.SIGRTMAX + 1)
"""Each stands for the signal with its number less SIGRTMIN, which the job is to get."""
CONTROL = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, *PASSED_ON})
_ALL = signal.valid_signals()
_WAKING = CONTROL | {signal.SIGCHLD}

GATE = 3
"""The descriptor of the pipe from which a runner with a gate reads a byte."""
_VARIABLE = "RADRM_RUNNER_GATED"
GATED = {_VARIABLE: "1"}
"""What a new interpreter with a gate has in its environment."""
_GATE_S = 10.0
"""How long a silent daemon may keep the job waiting."""
_RESERVE = b" " * 65536
STORED, BEGIN = "stored", "begin"
"""The daemon's words to a fork, with an attempt's folder: its end is stored; its job may begin, for
the launch is on disk, and all that the job needs is there."""
FREED = b"f"
"""What is said of a job with GPUs between its last process's end and its exit record, so that they
are read while the runner finds out how it ended: the next job need not wait for that."""
_PATIENCE_S = 0.1
"""How long that is waited for before the exit record is synced: a sync would hold up the store."""
_LONGEST_S = 3600.0
"""Of one wait: the kernel takes no time without an end."""
_LAST_LOOK_S = 1.0
"""How long the end of an attempt waits for the watcher's last look."""


def main(folder: str) -> int:
    """Run the attempt in this process; the exit status says only whether its records could be
    written."""
    return 0 if run(folder, _VARIABLE in os.environ, held=False) is not False else 1


class NotBegun(Exception):
    """The daemon has ended, or given the launch up, before the job began: nothing is recorded, and
    the launch is void."""


def run(folder: str, gated: bool, held: bool = True) -> bool | None:
    """Run the attempt, and return whether its records could be written; None if it is another
    process's, or never begins. `gated`: it waits at its gate; `held`: for `BEGIN`."""
    if gated and not _opens():
        launch, _ = attempts.read_record(folder, attempts.LAUNCH)
        if launch is not None and launch["cgroup"] is not None:
            cgroups.remove(launch["cgroup"])
        return None
    reaper = settle()
    me = identify(os.getpid())
    assert me is not None
    lock = attempts.take_lock(folder)
    crossed("runner has its lock")
    try:
        return _run_with(lock, folder, me, reaper, held)
    except NotBegun:
        return None
    finally:
        os.close(lock)


def _opens() -> bool:
    """Wait at the gate, and close it; False if the daemon has died."""
    try:
        ready, _, _ = select.select([GATE], [], [], _GATE_S)
        return not ready or os.read(GATE, 1) != b""
    finally:
        os.close(GATE)


def _run_with(lock: int, folder: str, me: Identity, reaper: bool, held: bool) -> bool | None:
    if not attempts.Claim.take(folder, attempts.RUNNER, me):
        return None
    with contextlib.suppress(OSError):
        write_all(lock, _RESERVE)
    launch, reason = attempts.read_record(folder, attempts.LAUNCH)
    if launch is None:
        end: Fields = {"never_started": reason or f"{attempts.LAUNCH} is missing"}
    else:
        end = Runner(folder, lock, me, launch, reaper, held).run()
    written = attempts.write_exit(folder, lock, end, partial(_tell_end, folder))
    crossed("runner is done")
    return written


@cache
def settle() -> bool:
    """Have the signals, descriptors, folder and children of a runner, whatever is inherited; return
    whether orphans become children of this process. Once: a spare has done it before it begins."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide exit codes
    reaper = become_subreaper()  # while the kernel still moves us
    job_process.close_inherited()
    os.chdir("/")
    os.umask(0o077)
    return reaper


def _tell(what: bytes = b"\n") -> None:
    """Tell the daemon that there is a record to read, or what else there is."""
    with contextlib.suppress(OSError):  # it may have closed its end
        os.write(1, what)


def _tell_end(folder: str) -> bool:
    """Tell the daemon that the exit record can be read. Return whether it has stored the end: it
    says so to a fork (`STORED`), whose output is a socket."""
    _tell()
    return _heard(STORED, folder, _PATIENCE_S if stat.S_ISSOCK(os.fstat(1).st_mode) else 0.0)


def _heard(word: str, folder: str, seconds: float) -> bool:
    """Wait for a word of the daemon about this attempt, for at most so long; False: it does not
    come. Others, which came too late, are dropped."""
    wanted, said = json.dumps({word: folder}).encode(), b"-"
    until_s = time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while said not in (wanted, b"") and (left_s := until_s - time.monotonic()) > 0:
            if select.select([1], [], [], min(left_s, _LONGEST_S))[0]:
                said = os.read(1, len(wanted) + 1)
    return said == wanted


class Runner:
    """One job, from its fork to the end of its last process."""

    def __init__(
        self, folder: str, lock: int, me: Identity, launch: Fields, reaper: bool, held: bool
    ) -> None:
        self._folder = folder
        self._held = held
        self._lock = lock
        self._me = me
        self._launch = launch
        self._cgroup: str | None = None
        """The group that holds the job, and never us."""
        self._limits = Limits.of(launch, os.path.basename(folder))
        self._token: str | None = None if reaper else launch["token"]
        """None while our own children are sure to be all: no environment is searched."""
        self._users = () if launch["uid"] is None else (launch["uid"],)
        self._job = 0
        self._forks: int | None = None
        """What the machine had started before the job."""
        self._began_s = 0.0
        self._memory_kills = 0
        self._watcher = 0
        """The pid of the process that reads the job's progress; 0: none."""
        self._status: int | None = None
        self._killing = False
        self._stop: Stop | None = None
        self._ended_itself_s: float | None = None
        """When its main process ended without a stop, or all of it where all is waited for."""
        self._left: list[str] = []
        """What was still running when the main process had ended."""

    def run(self) -> Fields:
        """Run the job to its end; what the exit record shall say of it is returned. Raises
        `NotBegun`."""
        try:
            errors = self._start()
        except NotBegun:
            self._give_up()
            raise
        except Exception as error:
            cause = error.strerror if isinstance(error, OSError) else error
            end: Fields = {
                "never_started": f"the job could not be started from {self._folder}: {cause}; "
                "once that is fixed, submit it again",
                "passing": is_transient(error),
            }
            self._give_up()
        else:
            self._supervise()
            crossed("job ended")
            self._let_go()
            crossed("job drained")
            self._end_watcher()
            self._end_leftovers()
            crossed("job's tree ended")
            over = attempts.now()
            has_gpus = self._launch["environment"].get("RADRM_GPUS", "0") != "0"
            if has_gpus and self._launch.get("step") is None:  # a step reads an error there
                _tell(FREED)
            end = self._how_it_ended(errors) | over
            end["exceeded_mib"] = self._limits.exceeded_mib()
            if end.get("signal") == signal.SIGKILL or end.get("code") == 128 + signal.SIGKILL:
                end["memory_kills"] = memory_kills() - self._memory_kills
            end["left"] = ", ".join(filter(None, self._left)) or None
            if end["left"] and end.get("code") == 0:  # else its last words are why it failed
                self._leftovers.tell(self._launch, end["left"])
            if self._ended_itself_s is not None:
                end["itself_ago_s"] = time.monotonic() - self._ended_itself_s
        self._remove_groups()
        crossed("end known")
        return end

    def _give_up(self) -> None:
        """End a job that has not begun."""
        self._end_watcher()
        while self._children_left():
            os.kill(self._job, signal.SIGKILL)  # it waits for a word that never comes
            self._wait(None)
        self._remove_groups()

    def _remove_groups(self) -> None:
        for group in filter(None, (self._cgroup, *self._limits.groups)):
            cgroups.remove(group)

    def _start(self) -> int:
        """Fork the job and let it begin; the pipe that tells what kept it from that."""
        script = self._write_script() if self._launch["script"] is not None else None
        go, begin = os.pipe()
        errors, tell = job_process.error_sockets()
        group, not_limited = self._make_groups()
        self._forks = forks()
        self._began_s = wall_s()
        self._memory_kills = memory_kills()
        born = clone_into(group) if group is not None else None
        self._job = os.fork() if born is None else born
        if self._job == 0:
            os.close(begin)
            os.close(self._lock)  # it says that the runner lives
            job_process.become_job(self._launch, script, go, tell)
        crossed("job forked")
        if group is not None and (born is not None or cgroups.join(group, self._job)):
            self._cgroup = group
        bound = self._launch.get("cpu_list")
        if not self._launch.get("binds_tasks"):
            bound = affinity.bind(self._job, bound)
        os.close(go)
        os.close(tell)
        try:
            outside = self._limits.enclose(self._job, self._cgroup)
            crossed("job limited")
            if self._launch.get("grouped"):
                self._require_group()
                job_process.let_go_on(begin)  # it is in its group, so it may open its logs
            if self._launch.get("progress") is not None or self._launch.get("silent_s"):
                # Here, for most jobs need no such import.
                from radrm.host.attempts import log_watcher

                groups = [*filter(None, (self._cgroup,)), *self._limits.wanted()]
                self._watcher = log_watcher.start(self._launch, groups, os.getpid())
                crossed("log watcher started")
            self._write_start(not_limited or outside, bound)
            crossed("start written")
            job_process.let_go_on(begin)
            crossed("job begun")
            _tell()
        finally:
            os.close(begin)
        return errors

    def _make_groups(self) -> tuple[str | None, str | None]:
        """Make the job's control group and those with its limits. Return the first, None where
        there can be none, and what could not be limited. What a step runs stays in Slurm's."""
        group = None if self._launch.get("step") is not None else self._launch["cgroup"]
        if group is not None and not cgroups.make(group):
            group = None
        return group, self._limits.apply()

    def _require_group(self) -> None:
        """Raise OSError for a job that must not run outside its group, because the daemon has set
        there what it may use."""
        if self._cgroup is None:
            raise OSError(errno.EAGAIN, f"{self._launch['cgroup']} takes no process")

    def _write_script(self) -> str:
        path = os.path.join(self._folder, attempts.SCRIPT)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
        try:
            write_all(fd, self._launch["script"].encode("utf-8", "surrogateescape"))
            if self._launch["uid"] is not None:
                os.fchown(fd, self._launch["uid"], self._launch["gid"])
        finally:
            os.close(fd)
        return path

    def _write_start(self, not_limited: str | None, bound: list[int] | None) -> None:
        job = identify(self._job)
        assert job is not None  # not reaped yet
        record = {
            "pid": job.pid,
            "start_ticks": job.start_ticks,
            "runner_pid": self._me.pid,
            "runner_start_ticks": self._me.start_ticks,
            "not_limited": not_limited,
            "cpu_list": bound,
            **attempts.now(),
        }
        # Slurm runs a step again that had not begun, so this must survive a power failure.
        is_step = os.path.basename(self._folder) == attempts.STEP
        before = self._hear_begin if self._held else None
        attempts.write_record(self._folder, attempts.START, record, is_step, before)

    def _hear_begin(self) -> None:
        crossed("runner holds")
        if not _heard(BEGIN, self._folder, math.inf):
            raise NotBegun

    # ---------------------------------------------------------------- waiting

    def _supervise(self) -> None:
        """Until the main process has ended, or all of the job where that is asked for."""
        # Not before, for the job need not wait; not later, for an upgrade may remove the code.
        from radrm.host.attempts import containers, engines, leftovers, redirected

        self._engines, self._machine = engines, containers.Containers()
        self._leftovers, self._redirected = leftovers, redirected
        for_all = self._launch.get("waits_for_all") is True
        while self._children_left() and (self._status is None or (for_all and self._find())):
            self._obey(self._wait(self._stop.look() if self._stop is not None else None))

    def _let_go(self) -> None:
        """Let what the main process has left say its last words, and end it (`leftovers`)."""
        if not self._killing and self._stop is None:
            self._ended_itself_s = time.monotonic()
        self._let_end(self._leftovers.MOMENT_S)
        if self._runs_on() and (work := self._leftovers.work_in(self._find())):
            self._left.append(self._leftovers.named(work))
            self._end_work()
        self._let_end(self._leftovers.DRAIN_S)
        if self._runs_on():
            self._left.append(self._leftovers.named(self._find()))

    def _runs_on(self) -> bool:
        """Whether something of the job is left that was not asked to end."""
        asked = self._killing or self._stop is not None
        return not asked and self._children_left() and bool(self._find())

    def _let_end(self, seconds: float) -> None:
        """Wait until nothing of the job is left, for at most so long."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and self._runs_on():
            self._obey(self._wait(left_s))

    def _end_work(self) -> None:
        """TERM, a grace, then KILL for what is left, but for the readers of pipes."""

        def find() -> dict[int, Stat]:
            work: dict[int, Stat] = self._leftovers.work_in(self._find())
            return work

        client_work.remove(self._launch, find, kill=False)
        grace_s = self._launch["kill_grace_s"]
        stop = Stop(find, grace_s, grace_s)
        while not self._killing and find():
            look_s = stop.look()
            if stop.left_s <= 0:
                client_work.remove(self._launch, find, kill=True)
                for pid, each in find().items():
                    send_signal(pid, each.start_ticks, signal.SIGKILL)
                break
            look_s = min(LOOK_S, stop.left_s) if look_s is None else look_s
            self._killing = self._wait(look_s) == signal.SIGUSR2

    def _end_leftovers(self) -> None:
        """TERM, a grace, then KILL for what the main process has left behind.

        A stop under way goes on: the main process may be a shell that has ended first.
        What resists KILL (a process stuck in the kernel) is waited for: an exit record
        says that the devices are free.
        """
        if not self._killing and self._children_left():
            if self._stop is None:  # else the daemon has done it
                client_work.remove(self._launch, self._find, kill=False)
            stop = self._begin_stop(self._launch["kill_grace_s"])
            while self._children_left() and not self._killing:
                look_s = stop.look()
                if stop.left_s <= 0:
                    break
                if self._wait(stop.left_s if look_s is None else look_s) == signal.SIGUSR2:
                    self._killing = True
        if not self._killing:
            client_work.remove(self._launch, self._find, kill=True)
        self._kill_children()
        while self._others_left():
            self._kill_all()
        self._end_containers()

    def _end_containers(self) -> None:
        """KILL the containers that the job has left behind: they are their engine's children."""
        engines, machine, token = self._engines, self._machine, self._launch["token"]
        above = self._job if are_in_turn(self._job, self._forks) else 0
        found = machine.of_attempt(token, above=above)
        if not found and engines.declared(self._launch) is None:
            return
        if self._ended_itself_s is not None:
            names = [f"container {each.id[:12]}" for each in found]
            self._left.append(self._leftovers.listed(names))
        known: set[str] = set()
        while True:
            members = {pid for each in found for pid in each.members}
            client_work.remove(self._launch, members.copy, kill=True)
            # First, or it would start again what it does not know to be unwanted.
            engines.end(self._launch, found)
            known |= {each.group for each in found}
            found = machine.of_attempt(token, known)
            if not found:
                break
            if kill_tree(None, None, members):
                self._wait(1.0)
        self._kill_children()  # what an engine's command has left

    def _end_watcher(self) -> None:
        """Let the watcher read the last lines, and end it: it must not keep the attempt alive."""
        deadline = time.monotonic() + _LAST_LOOK_S
        if self._watcher and self._children_left() and self._watcher:
            os.kill(self._watcher, signal.SIGTERM)
        while self._watcher and self._children_left() and self._watcher:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or self._killing:
                os.kill(self._watcher, signal.SIGKILL)
            self._obey(self._wait(max(0.05, left_s)))

    def _children_left(self) -> bool:
        """Reap all that have ended. The subreaper of all has no child only when none lives."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._job:
                self._status = status
            elif pid == self._watcher:
                self._watcher = 0

    def _others_left(self) -> bool:
        """True while processes of the job live that are not our descendants: such as were
        put into its group, or all of its orphans where we could not become their reaper."""
        members = cgroups.processes(self._cgroup) if self._cgroup is not None else set()
        return bool(
            members or (self._token and attempt_processes(self._token, None, (), self._users))
        )

    def _wait(self, seconds: float | None) -> int | None:
        """Until a signal comes, or `seconds` have passed: then None."""
        if seconds is None:
            return signal.sigwaitinfo(_WAKING).si_signo
        info = signal.sigtimedwait(_WAKING, seconds)
        return info.si_signo if info else None

    def _obey(self, number: int | None) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._begin_stop(self._launch["grace_s"])
            crossed("stop begun")
        elif number == signal.SIGUSR2:
            self._killing = True
            self._kill_all()
            crossed("job killed")
        elif number is not None and number in PASSED_ON:
            marks = self._token, self._me, self._grouped(), self._users
            signal_catchers(number - signal.SIGRTMIN, *marks)

    def _begin_stop(self, seconds: float) -> Stop:
        """Begin a stop. One that is under way goes on, so that no process gets TERM twice."""
        if self._stop is None or self._stop.left_s <= 0:
            self._stop = Stop(self._find, seconds, self._launch["kill_grace_s"])
        return self._stop

    def _find(self) -> dict[int, Stat]:
        found = attempt_stats(self._token, self._me, self._grouped(), self._users)
        found.pop(self._watcher, None)
        return found

    def _grouped(self) -> set[int]:
        return cgroups.processes(self._cgroup) if self._cgroup is not None else set()

    def _kill_children(self) -> None:
        while self._children_left():
            self._kill_all()
            if self._children_left():
                self._wait(1.0)

    def _kill_all(self) -> None:
        kill_tree(self._token, self._me, (), self._cgroup, users=self._users)

    # ---------------------------------------------------------------- the end

    def _how_it_ended(self, errors: int) -> Fields:
        output, logs = job_process.receive_output(errors)
        begins, wrong = job_process.parse_output(output)
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        looks = exits.looks_at_exits(self._launch)
        if not saved.remove_empty(self._launch):
            looks += saved.looks_at_saved(self._launch)
        if wrong:
            end: Fields = {"never_started": wrong, "shell_code": code}
        else:
            end = {"signal": -code} if code < 0 else {"code": code}
            looks += [tails.look_at_room(logs)] if code else []
            # What an exit code 0 may hide is that GPU memory ran out.
            if code != 0 or self._launch["environment"].get("RADRM_GPUS") != "0":
                looks = tails.looks_at_tails(begins, logs) + looks
                looks += self._redirected.looks_at_redirected(self._launch, self._began_s)
        end |= saved.NOTHING | tails.read_as_user(self._launch, looks)
        for log in logs:
            os.close(log)
        if end.get("code") == 0:
            end |= {key: tails.may_tell(end.get(key)) for key in ("stderr_tail", "stdout_tail")}
        return end


if __name__ == "__main__":
    os._exit(main(os.path.abspath(sys.argv[1])))
