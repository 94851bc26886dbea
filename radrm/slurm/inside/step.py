"""Run the tasks of a step: their environments, streams, signals and ends.

Theory of operation. One task without a label needs nobody beside it: `srun` becomes the task, which
so gets each signal itself. Else `srun` forks the tasks, each in a process group of its own, and
stays to pass on standard input (to all tasks, as in Slurm), output and signals. Where tasks share
a stream, their lines stay whole, as in Slurm. All this is one loop that waits for descriptors; a
handler of a signal only writes to one of them. Nothing that a task leaves open keeps it waiting: it
ends when all tasks have ended and what they had written is read.

A signal of radrm (TERM at a stop, USR1 before a time limit) goes to the topmost process that
handles it: to `srun`, which passes it on, so no task gets it twice.

Source: srun(1) of Slurm 25.11: exit codes, signals, IO redirection.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import selectors
import shlex
import signal
import stat
import sys
import time
from collections import Counter

from radrm.errors import Refused, UsageError, plain
from radrm.jobfile.inherited import SET_FOR_STEP, set_listed
from radrm.jobfile.values import shown
from radrm.slurm.hostlists import expanded
from radrm.slurm.inside.request import Job, Request, bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

    from radrm.slurm.inside.shares import Share

KILL_S = 30.0
"""From TERM to KILL, as Slurm's KillWait."""
_CHUNK = 1 << 16
_MOST_KEPT = 1 << 20
"""Bytes of standard input kept for a task that does not read them."""
_DRAIN_S = 2.0
_AGAIN_S = 1.0
"""Two interrupts within this time end the step."""
_PASSED_ON = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "ALRM", "CONT", "WINCH", "URG")
_NO_TASK_ID = "4294967294"
"""What Slurm writes for the index of a job that is no element of an array."""
_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TERM", "TZ")
_OF_JOBS = ("SLURM", "RADRM_", "CUDA_", "NVIDIA_")

Command = tuple[list[str], dict[str, str]]


# ------------------------------------------------------------------ what tasks get


def environment(
    request: Request, job: Job, share: Share, task: int, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a task, but for `SLURM_TASK_PID`."""
    tasks = str(request.tasks)
    exported = _exported(request.export, environ)
    found = dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), job.id)
    if "SLURM_JOB_NAME" not in exported:
        found["SLURM_JOB_NAME"] = request.name or environ.get("RADRM_JOB_NAME", "")
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_STEP_NODELIST"):
        found[name] = job.host
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_STEP_NUM_NODES"):
        found[name] = "1"
    for name in ("NTASKS", "NPROCS", "STEP_NUM_TASKS", "STEP_TASKS_PER_NODE", "TASKS_PER_NODE"):
        found[f"SLURM_{name}"] = tasks
    found |= dict.fromkeys(("SLURM_STEP_ID", "SLURM_STEPID"), str(share.number))
    found |= dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID"), str(task))
    found |= {
        "SLURM_NODEID": "0",
        "SLURM_GTIDS": ",".join(map(str, range(request.tasks))),
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_UMASK": f"{_umask():04o}",
    }
    if request.cpus is not None:
        found["SLURM_CPUS_PER_TASK"] = str(request.cpus)
        found["SLURM_CPUS_ON_NODE"] = str(request.cpus * request.tasks)
    if request.per_node is not None:
        found["SLURM_NTASKS_PER_NODE"] = request.per_node
    found |= _of_gpus(request, share, task, exported.get("CUDA_VISIBLE_DEVICES", ""))
    set_listed(exported, SET_FOR_STEP, found)
    return exported


def _of_gpus(request: Request, share: Share, task: int, seen: str) -> dict[str, str]:
    own = bound(request.binding, share.gpus, task)
    found = {"SLURM_STEP_GPUS": ",".join(share.numbers)} if share.gpus else {}
    if share.gpus:
        found["SLURM_GPUS_ON_NODE"] = str(len(share.gpus))
    if ",".join(own) != seen:  # else all that radrm has set stays as it is
        found["CUDA_VISIBLE_DEVICES"] = ",".join(own)
        found["NVIDIA_VISIBLE_DEVICES"] = ",".join(own) or "void"
    return found


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _exported(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """What `--export` lets through: `ALL`, `NONE`, names, and `NAME=VALUE`."""
    words = re.findall(r"(?:[^,']|'[^']*'?)+", text)
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            settings[name] = re.sub(r"'([^']*)'", r"\1", value)
    if "ALL" in words:
        return {**environ, **settings}
    names = {*words, *_LOGIN}
    kept = {k: v for k, v in environ.items() if k in names or k.startswith(_OF_JOBS)}
    return kept | settings


def commands(request: Request, job: Job, share: Share, environ: Mapping[str, str]) -> list[Command]:
    """Return what each task runs, with its environment. Raises `UsageError`."""
    lines = _multi(request) if request.multi_prog else [list(request.command)] * request.tasks
    return [
        (words, environment(request, job, share, task, environ)) for task, words in enumerate(lines)
    ]


def _multi(request: Request) -> list[list[str]]:
    """The commands of a `--multi-prog` file: `TASKS PROGRAM ARGUMENTS` in each line."""
    path = request.command[0]
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(_MOST_KEPT).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise Refused(f"cannot read {plain(path)}: {error.strerror}") from None
    found: dict[int, list[str]] = {}
    for line in text.replace("\\\n", "").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"{plain(path)}: {shown(line)}: {str(error).lower()}") from None
        if words:
            for at, task in enumerate(_ranks(words[0], request.tasks, path)):
                found[task] = [_filled_in(word, task, at) for word in words[1:]]
    missing = [task for task in range(request.tasks) if not found.get(task)]
    if missing:
        raise UsageError(f"{plain(path)} has no program for task {missing[0]}")
    return [found[task] for task in range(request.tasks)]


def _filled_in(word: str, task: int, at: int) -> str:
    """Return a word with `%t` as the task's number, and `%o` as its place in its range."""
    values = {"%t": str(task), "%o": str(at)}
    return re.sub(r"%[to]", lambda found: values[found[0]], word)


def _ranks(text: str, tasks: int, path: str) -> list[int]:
    if text == "*":
        return list(range(tasks))
    try:
        return [number for number in map(int, expanded(f"[{text}]")) if number < tasks]
    except UsageError:
        raise UsageError(f"{plain(path)}: {shown(text)} are no tasks, as 0-2,5") from None


def path_of(pattern: str, task: int, job: Job, share: Share, environ: Mapping[str, str]) -> str:
    """Return the file that a pattern of `--output` names for a task."""
    values = {
        "%": "%",
        "A": environ.get("SLURM_ARRAY_JOB_ID") or job.id,
        "a": environ.get("SLURM_ARRAY_TASK_ID") or _NO_TASK_ID,
        "J": f"{job.id}.{share.number}",
        "j": job.id,
        "N": job.host.partition(".")[0],
        "n": "0",
        "s": str(share.number),
        "t": str(task),
        "u": environ.get("RADRM_JOB_USER") or environ.get("SLURM_JOB_USER") or _user(),
        "x": environ.get("SLURM_JOB_NAME") or environ.get("RADRM_JOB_NAME", ""),
    }

    def filled(found: re.Match[str]) -> str:
        text = values.get(found[2])
        if text is None:
            return found[0]
        return text.zfill(min(10, int(found[1] or 0))) if text.isdecimal() else text

    return re.sub(r"%([0-9]{0,2})([%A-Za-z])", filled, pattern)


def _user() -> str:
    import pwd

    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())


# ------------------------------------------------------------------ the streams of tasks


class Files:
    """The files that tasks write to. Several tasks may share one."""

    def __init__(self, appends: bool) -> None:
        self._flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if appends else os.O_TRUNC)
        self._opened: dict[str, int] = {}

    def open(self, path: str) -> int:
        if path not in self._opened:
            try:
                fd = os.open(path, self._flags | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
            except OSError as error:
                raise Refused(f"Could not open {plain(path)}: {error.strerror}") from None
            # Several tasks write behind one another, not over one another.
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
            self._opened[path] = fd
        return self._opened[path]

    @staticmethod
    def read(path: str) -> int:
        """Open a file for one task, which reads it from its beginning."""
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            raise Refused(f"Could not open {plain(path)}: {error.strerror}") from None


def targets(
    mode: str, task: int, default: int, files: Files, named: Callable[[str, int], str]
) -> int:
    """Return the descriptor to which a stream of a task goes; its mode is `all`, `none`, the number
    of the only task that is shown, or a pattern of files."""
    if mode == "all" or (mode.isdecimal() and int(mode) == task):
        return default
    if mode == "none" or mode.isdecimal():
        return files.open(os.devnull)
    return files.open(named(mode, task))


def resolved(words: list[str], environ: Mapping[str, str]) -> list[str]:
    """Return a command with its program: on the PATH, else in the working directory."""
    program = words[0]
    if "/" in program:
        return words
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        if os.access(os.path.join(folder, program), os.X_OK):
            return words
    here = os.path.join(os.curdir, program)
    return [here, *words[1:]] if os.access(here, os.X_OK) and os.path.isfile(here) else words


def become(command: Command, streams: tuple[int, int, int]) -> NoReturn:
    """Turn this process into a task."""
    words, environ = command
    kept = [os.dup(fd) if fd < at else fd for at, fd in enumerate(streams)]
    for at, fd in enumerate(kept):
        os.dup2(fd, at)
        os.set_inheritable(at, True)  # also one that was opened there because it was closed
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores both
        signal.signal(number, signal.SIG_DFL)
    set_listed(environ, SET_FOR_STEP, {"SLURM_TASK_PID": str(os.getpid())})
    words = resolved(words, environ)
    try:
        os.execvpe(words[0], words, environ)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        text = f"srun: error: execve(): {plain(words[0])}: {why}\n"
        with contextlib.suppress(OSError):
            os.write(2, text.encode("utf-8", "replace"))
        os._exit(getattr(error, "errno", None) or errno.ENOENT)  # as slurmstepd


# ------------------------------------------------------------------ the step


class Step:
    """The tasks of a step while they run. `streams`: of each task, as `become` wants them."""

    def __init__(self, request: Request, job: Job, tell: Callable[[str], None]) -> None:
        self._request, self._job, self._tell = request, job, tell
        self._poll = selectors.DefaultSelector()
        self._pids: dict[int, int] = {}
        """Tasks that run, by pid."""
        self._code = 0
        self._rests: dict[int, bytes] = {}
        self._shared: frozenset[int] = frozenset()
        """Streams to which several tasks write."""
        self._inputs: dict[int, bytearray] = {}
        self._ends_s = self._kills_s = self._again_s = float("inf")
        self._interrupted_s = float("-inf")

    def run(self, every: list[Command], streams: list[tuple[int, int, int]]) -> int:
        """Run the tasks. Returns the exit code: the highest of theirs."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        numbers = [getattr(signal, f"SIG{name}") for name in _PASSED_ON]
        for number in (*numbers, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self._poll.register(wake, selectors.EVENT_READ, lambda: self._signals(wake))
        if not self._request.unbuffered:
            used = Counter(fd for _, *given in streams for fd in set(given))
            self._shared = frozenset(fd for fd, tasks in used.items() if tasks > 1)
        plans = [self._piped(task, *each) for task, each in enumerate(streams)]
        for task, (command, plan) in enumerate(zip(every, plans, strict=True)):
            self._fork(task, command, plan)
        for plan, before in zip(plans, streams, strict=True):
            for fd, old in zip(plan, before, strict=True):
                if fd != old:
                    os.close(fd)
        if self._request.lasts_s is not None:
            self._ends_s = time.monotonic() + self._request.lasts_s
        self._reap()
        while self._pids:
            self._turn(self._until())
        self._drain()
        return self._code

    def _piped(self, task: int, given: int, out: int, err: int) -> tuple[int, int, int]:
        """The streams of a task, with pipes where something is passed on."""
        out, err = (self._relayed(task, fd) for fd in (out, err))
        if given == 0 and self._request.tasks > 1 and passable(0):
            given = self._fed()
        return given, out, err

    def _relayed(self, task: int, target: int) -> int:
        """A pipe whose whole lines are written to the target, with the task's label if asked for;
        the target itself where no other task writes to it."""
        labelled = self._request.label
        if not labelled and target not in self._shared:
            return target
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read, False)
        width = len(str(self._request.tasks - 1))
        label = f"{task:>{width}}: ".encode() if labelled else b""
        self._rests[read] = b""
        self._poll.register(read, selectors.EVENT_READ, lambda: self._lines(read, target, label))
        return write

    def _lines(self, source: int, target: int, label: bytes) -> None:
        """Write the whole lines that are there, each with its label. Without one, what ends in a
        carriage return is a line too: a bar of progress."""
        try:
            data = os.read(source, _CHUNK)
        except BlockingIOError:
            return
        text = self._rests[source] + data
        cut = max(text.rfind(b"\n"), -1 if label else text.rfind(b"\r")) + 1
        if not data or len(text) - cut > _CHUNK:
            cut = len(text)
        whole, self._rests[source] = text[:cut], text[cut:]
        if label and whole:
            lines = whole.removesuffix(b"\n").split(b"\n")
            whole = b"".join(label + line + b"\n" for line in lines)
        _write(target, whole)
        if not data:
            self._forget(source)

    def _fed(self) -> int:
        """The end of a pipe into which standard input is copied."""
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(write, False)
        if not self._inputs:
            self._poll.register(0, selectors.EVENT_READ, self._read_input)
        self._inputs[write] = bytearray()
        return read

    _input_ended = False

    def _read_input(self) -> None:
        """Copy a part of standard input to all tasks, unless one has too much unread."""
        if any(len(kept) > _MOST_KEPT for kept in self._inputs.values()):
            if 0 in self._poll.get_map():
                self._poll.unregister(0)
            return
        try:
            data = os.read(0, _CHUNK)
        except OSError:
            data = b""
        if not data:
            self._input_ended = True
            if 0 in self._poll.get_map():
                self._poll.unregister(0)
        for fd, kept in list(self._inputs.items()):
            kept += data
            self._feed(fd)

    def _feed(self, fd: int) -> None:
        """Write what is kept for a task, as far as its pipe takes it."""
        kept = self._inputs[fd]
        try:
            if kept:
                del kept[: os.write(fd, kept[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it any more
            kept.clear()
            self._no_input(fd)
            return
        if kept and fd not in self._poll.get_map():
            self._poll.register(fd, selectors.EVENT_WRITE, lambda: self._feed(fd))
        elif not kept:
            if fd in self._poll.get_map():
                self._poll.unregister(fd)
            if self._input_ended:
                self._no_input(fd)
            elif 0 not in self._poll.get_map():
                self._poll.register(0, selectors.EVENT_READ, self._read_input)

    def _no_input(self, fd: int) -> None:
        self._inputs.pop(fd, None)
        self._forget(fd)

    def _forget(self, fd: int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._poll.unregister(fd)
        os.close(fd)

    def _fork(self, task: int, command: Command, streams: tuple[int, int, int]) -> None:
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            self._pids[pid] = task
            return
        try:
            signal.set_wakeup_fd(-1)
            for name in (*_PASSED_ON, "CHLD"):
                signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL)
            os.setpgid(0, 0)
            become(command, streams)
        finally:
            os._exit(1)

    # -------------------------------------------------------------- the loop

    def _until(self) -> float | None:
        """The seconds until something is due; None: nothing is."""
        due = min(self._ends_s, self._kills_s)
        return None if due == float("inf") else max(0.0, due - time.monotonic())

    def _turn(self, wait_s: float | None) -> None:
        for key, _ in self._poll.select(wait_s):
            if key.fd in self._poll.get_map():
                key.data()
        now = time.monotonic()
        if now >= self._kills_s:
            self._kills_s = float("inf")
            self._signal_groups(signal.SIGKILL)
        if now >= self._ends_s:
            self._ends_s = float("inf")
            self._end("Step is being terminated")

    def _signals(self, wake: int) -> None:
        with contextlib.suppress(BlockingIOError):
            for number in os.read(wake, _CHUNK):
                if number == signal.SIGINT:
                    self._interrupt()
                elif number != signal.SIGCHLD:
                    self._pass_on(number)
        self._reap()

    def _interrupt(self) -> None:
        now = time.monotonic()
        if self._request.quits or now - self._interrupted_s < _AGAIN_S:
            self._pass_on(signal.SIGINT)
            self._end("interrupted")
            return
        self._interrupted_s = now
        running = ",".join(map(str, sorted(self._pids.values())))
        self._tell("interrupt (one more within 1 sec to abort)")
        self._tell(f"tasks {running}: running")

    def _pass_on(self, number: int) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _signal_groups(self, number: int) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    def _end(self, why: str) -> None:
        """End what still runs: TERM, and KILL later."""
        if self._kills_s < float("inf"):
            return
        self._tell(f"{why}: waiting up to {KILL_S:g} seconds for tasks to end")
        for number in (signal.SIGCONT, signal.SIGTERM):
            self._signal_groups(number)
        self._kills_s = time.monotonic() + KILL_S

    def _reap(self) -> None:
        while self._pids:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._pids:
                self._ended(self._pids.pop(pid), os.waitstatus_to_exitcode(status))

    def _ended(self, task: int, code: int) -> None:
        if code:
            how = f"Exited with exit code {code}" if code > 0 else _signal_name(-code)
            self._tell(f"error: {self._job.host}: task {task}: {how}")
        self._code = max(self._code, code if code >= 0 else 128 - code)
        if code and self._request.kill_on_bad_exit and self._pids:
            self._end(f"task {task} failed")
        elif self._request.wait_s is not None and self._ends_s == float("inf"):
            self._ends_s = time.monotonic() + self._request.wait_s

    def _drain(self) -> None:
        """Read what tasks have written before their end, and no longer than that takes."""
        until_s = time.monotonic() + _DRAIN_S
        while any(fd in self._poll.get_map() for fd in self._rests):
            left = until_s - time.monotonic()
            ready = [key for key, _ in self._poll.select(max(0.0, left)) if key.fd in self._rests]
            for key in ready:
                key.data()
            if left <= 0:
                return


def passable(fd: int) -> bool:
    """Return whether what a descriptor gives can be passed on: a pipe, a socket or a terminal."""
    kind = os.fstat(fd).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(fd)


def _signal_name(number: int) -> str:
    return signal.strsignal(number) or f"Signal {number}"


def _write(fd: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody reads it; the tasks go on
        while data:
            data = data[os.write(fd, data) :]


def is_null(fd: int) -> bool:
    """Return whether a descriptor is closed, or /dev/null."""
    try:
        found = os.fstat(fd)
    except OSError:
        return True
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3)
