"""Run the tracer as a user, within limits, and end what a killed daemon has left of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from radrm import errors
from radrm.config import EstimationConfig
from radrm.errors import RadrmError
from radrm.host.estimation import start_tracer
from radrm.host.estimation.asking import SCRIPT, TRACE
from radrm.host.estimation.collecting import (
    CLOCK_TIMES,
    MAX_DOCUMENT,
    SAVED,
    WRITING_S,
    Documents,
    failure,
)
from radrm.host.estimation.confine import MOST_PROCESSES
from radrm.host.estimation.sandbox import FOLDER
from radrm.host.processes import cgroups
from radrm.host.processes.identity import boot_id
from radrm.host.processes.procfs import TOKEN_VARIABLE
from radrm.host.processes.tree import kill_tree
from radrm.jobfile.options import Options
from radrm.jobfile.radfile import Program

# ------------------------------------------------------------------
# Records running traces, so that the next daemon can end the processes of a killed one.
#
# Usually none is left: a tracer's parent ends it when the daemon dies. But both may be killed.
#
# Theory of operation: a trace has a record from before its start until after its end. A trace's
# processes are those with its token, a secret in their environment, and those in its control
# group; a restarted daemon ends no others. The folder is below the daemon's run folder, which a
# reboot empties. A record of another boot is ignored.


GROUP = "radrm-trace-"
_NAME = re.compile(r"[0-9a-f]{32}\.json")
_MOST_READ = 4096
_MOST = 1000
"""Files that are read. A daemon leaves at most one per trace that it runs at the same time."""


def group_name(token: str) -> str:
    """The name of a trace's control group."""
    return f"{GROUP}{token[:8]}"


class Leftovers:
    """The records in `folder`. `note` makes the folder if it is missing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def note(self, token: str, group: str | None, uid: int | None) -> None:
        """Record a trace, before its tracer starts. Raises `OSError`."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        fields = {"token": token, "cgroup": group, "uid": uid, "boot_id": boot_id()}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path(token), flags, 0o600)
        try:
            os.write(fd, json.dumps(fields).encode())
        finally:
            os.close(fd)

    def forget(self, token: str) -> None:
        """Remove a trace's record, after its end."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(token))

    def end(self) -> int:
        """KILL the processes of an earlier daemon's traces; return the number of records."""
        try:
            names = sorted(filter(_NAME.fullmatch, os.listdir(self._folder)))[:_MOST]
        except OSError:
            return 0
        found = [each for name in names if (each := self._read(name)) is not None]
        for token, group, uid in found:
            kill_tree(token, None, (), group, users=() if uid is None else (uid,))
            if group is not None:
                cgroups.remove(group)
        for name in names:
            self.forget(name.removesuffix(".json"))
        return len(found)

    def _read(self, name: str) -> tuple[str, str | None, int | None] | None:
        """The token, control group and user of a record; None unless it is of this boot."""
        token = name.removesuffix(".json")
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(self._path(token), flags)
            try:
                fields = json.loads(os.read(fd, _MOST_READ))
            finally:
                os.close(fd)
            group, uid = fields["cgroup"], fields["uid"]
            if fields["token"] != token or fields["boot_id"] != boot_id():
                return None
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None
        # `end` kills all processes of the group, so the group must be this trace's.
        if not isinstance(group, str) or os.path.basename(group) != group_name(token):
            group = None
        return token, group, uid if type(uid) is int else None

    def _path(self, token: str) -> str:
        return os.path.join(self._folder, f"{token}.json")


# ------------------------------------------------------------------
# The tracer's process: started as the user with the user's Python, limited in time, and ended.
#
# It runs the user's code, so it has the rights and the environment of that user's job, without a
# GPU. It sends its document through a pipe; its other output is dropped.


END_LIMIT_S = 10.0
"""Seconds that a tracer's parent may need to end all processes."""
TRACER = Path(errors.__file__).parent / "tracer"
COMMAND_VARIABLE = "RADRM_TRACED_COMMAND"
"""The variable that holds the job's command. All users can read a process's arguments, so the
command is not among them."""
MOST_COMMAND = 1 << 16
"""Bytes of the command. The kernel allows twice as many in one variable."""
FOLDER_VARIABLE = "RADRM_TRACE_FOLDER"
"""Where a traced program writes its document, as `PID.json`."""
LIMIT_VARIABLE = "RADRM_TRACE_LIMIT_S"
"""Seconds of processor time until a traced program must have written its document."""
GPUS_VARIABLE, MEMORY_VARIABLE = "RADRM_TRACE_GPUS", "RADRM_TRACE_GPU_MIB"
_CPU_WEIGHT = 10
"""Of a job's 100: jobs come first."""
SITE_VARIABLE = "RADRM_TRACE_SITE"
"""The folder of the hook (`pythons.py`)."""
_IN_JOBS, _REPORT_PY = TRACER.parent / "in_jobs", TRACER.parent / "report.py"
"""What jobs import of radrm (`daemon/launching.py`)."""
SITE = TRACER / "site"
"""The folder of the `sitecustomize` that traces the Python programs of a command."""
_HIDDEN = {
    "CUDA_VISIBLE_DEVICES": "",
    "NVIDIA_VISIBLE_DEVICES": "void",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class NotTraced(RadrmError):
    """One line: the reason why there is no trace, and what to do."""


class Unwanted(NotTraced):
    """Nobody waits for the trace any more."""


class TraceRequest(Struct, frozen=True, kw_only=True):
    """What to trace, and as which user. With `uid` and `gid` None it is this process's user.

    With `program` the job's own command runs, unchanged, on `gpus` GPUs that do not exist. Else
    `python` runs the tracer of factories with `arguments`; `command` is then the text of the
    job's command; it may be empty. `device_mib`: the memory of each GPU; None: unknown.
    """

    cwd: str
    environment: Mapping[str, str]
    umask: int = 0o022
    user: str = ""
    uid: int | None = None
    gid: int | None = None
    program: Program | None = None
    gpus: int = 1
    device_mib: int | None = None
    arguments: tuple[str, ...] = ()
    python: str = "python3"
    command: str = ""

    @property
    def source(self) -> str:
        """The estimator for which this is traced."""
        return TRACE if self.program is None else SCRIPT


def tracer_arguments(options: Options) -> tuple[str, ...]:
    """The tracer's arguments for a job's options, which must have a `--model-factory`."""
    assert options.model_factory is not None
    shape = "x".join(map(str, options.input_shape)) if options.input_shape else None
    given = {
        "--batch-size": options.batch_size,
        "--sequence-length": options.sequence_length,
        "--input-shape": shape,
        "--optimizer": options.optimizer,
        "--precision": options.precision,
    }
    if options.gpus is not None and options.gpus > 1:
        given |= {"--gpus": options.gpus, "--parallel": "auto"}
    words = [f"{name}={value}" for name, value in given.items() if value is not None]
    return (*words, "--", options.model_factory)


def trace(
    request: TraceRequest,
    limits: EstimationConfig,
    ended: Callable[[], bool] = lambda: False,
    loud: bool = False,
    own: bool = False,
    leftovers: Leftovers | None = None,
) -> bytes:
    """The tracer's document. Raises `NotTraced`.

    The trace stops soon after `ended()` becomes true, with `Unwanted`. `loud`: the output of the
    user's code goes to standard error. `own`: the caller's own factory, which needs no sandbox
    where the machine allows none. `leftovers` records the trace for the next daemon.
    """
    if ended():
        raise Unwanted("nobody waits for it")
    source, output = os.pipe()
    token = secrets.token_hex(16)
    group = cgroups.place(group_name(token))

    def forget() -> None:
        os.close(source)
        if group is not None:
            cgroups.remove(group)
        if leftovers is not None:
            leftovers.forget(token)

    try:
        if leftovers is not None:
            leftovers.note(token, group, request.uid)
        if group is not None and not cgroups.make(group):
            group = None
        if group is not None:
            cgroups.limit(group, "pids.max", MOST_PROCESSES)
            cgroups.limit(group, "memory.max", limits.trace_memory_mib << 20)
            cgroups.limit(group, "cpu.weight", _CPU_WEIGHT)
        launch = launch_of(request, limits, token, group, loud)
        tracer = _start(launch, output, token, loud)
    except OSError as error:
        forget()
        raise NotTraced(f"the tracer cannot be started: {error.strerror}") from None
    finally:
        os.close(output)
    try:
        document = _document(source, tracer, CLOCK_TIMES * limits.trace_limit_s, ended)
    finally:
        _end(tracer)
        # A killed parent has ended no process, so end them here as well.
        users = () if request.uid is None else (request.uid,)
        kill_tree(token, None, (), group, users=users)
        forget()
    if tracer.returncode != start_tracer.NO_SANDBOX:
        return document
    if own and request.program is None:
        return _without_sandbox(request, limits, loud)
    raise NotTraced(json.loads(document)["error"])


def _without_sandbox(request: TraceRequest, limits: EstimationConfig, loud: bool) -> bytes:
    """The document of a factory of the caller's, traced as any program of the caller's runs."""
    with tempfile.TemporaryDirectory() as folder:
        program, environment = _program(request, folder)
        try:
            subprocess.run(
                program.words or (),
                cwd=request.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr if loud else subprocess.DEVNULL,
                stderr=None if loud else subprocess.DEVNULL,
                timeout=CLOCK_TIMES * limits.trace_limit_s,
            )
        except subprocess.TimeoutExpired:
            raise NotTraced(f"it took longer than {limits.trace_limit_s:g} s") from None
        except OSError as error:
            raise NotTraced(f"cannot run {request.python}: {error.strerror}") from None
        documents = Documents(folder)
        documents.look()
        found = documents.best or documents.error
        return json.dumps(found or failure("the tracer sent no trace")).encode()


def launch_of(
    request: TraceRequest,
    limits: EstimationConfig,
    token: str,
    group: str | None = None,
    loud: bool = False,
) -> dict[str, object]:
    """Return the parameters of a trace's parent process. `group`: the trace's control group."""
    program, environment = _program(request, FOLDER)
    if request.program is not None:
        own = environment.get("PYTHONPATH")
        folders = (str(SITE), *([own] if own else ()), str(_IN_JOBS))
        environment["PYTHONPATH"] = ":".join(folders)
        environment |= {"RADRM_REPORT_PY": str(_REPORT_PY), "RADRM_CHECKPOINT_DIR": SAVED}
        environment[LIMIT_VARIABLE] = f"{max(limits.trace_limit_s - WRITING_S, 1.0):g}"
        environment[GPUS_VARIABLE] = str(request.gpus)
        environment[MEMORY_VARIABLE] = str(request.device_mib or "")
        # Programs count these. No GPU has such a name, and the sandbox has no GPU.
        names = (f"GPU-{each:08x}-0000-0000-0000-000000000000" for each in range(request.gpus))
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(names)
        environment[FOLDER_VARIABLE] = FOLDER
        environment[SITE_VARIABLE] = str(SITE)
    return {
        "argv": program.words,
        "script": program.script,
        "interpreter": program.interpreter,
        "factory": request.program is None,
        "loud": loud,
        "reads": [str(TRACER.parent)],
        "cwd": request.cwd,
        "environment": {**environment, TOKEN_VARIABLE: token},
        "umask": request.umask,
        "user": request.user,
        "uid": request.uid,
        "gid": request.gid,
        "memory_mib": limits.trace_memory_mib,
        "limit_s": limits.trace_limit_s,
        "cgroup": group,
    }


def _start(
    launch: Mapping[str, object], output: int, token: str, loud: bool
) -> subprocess.Popen[bytes]:
    tracer = subprocess.Popen(
        [sys.executable, "-I", "-S", start_tracer.__file__, str(output)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=None if loud else subprocess.DEVNULL,
        pass_fds=(output,),
        env={TOKEN_VARIABLE: token},
        start_new_session=True,
    )
    assert tracer.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        tracer.stdin.write(json.dumps(launch).encode() + b"\n")
        tracer.stdin.flush()  # and stays open: closing it ends the trace
    return tracer


def _program(request: TraceRequest, folder: str) -> tuple[Program, dict[str, str]]:
    """What is run, and its environment. A factory's document goes to `folder`."""
    environment = {**request.environment, **_HIDDEN}
    if request.program is not None:
        return request.program, environment
    environment[COMMAND_VARIABLE] = _shortened(request.command)
    output = os.path.join(folder, "factory.json")
    words = (request.python, str(TRACER), f"--output={output}", *request.arguments)
    return Program(words), environment


def _shortened(command: str) -> str:
    return os.fsdecode(os.fsencode(command.replace("\0", ""))[:MOST_COMMAND])


def _end(tracer: subprocess.Popen[bytes]) -> None:
    """Let the tracer's parent end all processes and itself."""
    assert tracer.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        tracer.stdin.close()
    try:
        tracer.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        tracer.kill()
        tracer.wait()


def _document(
    source: int, tracer: subprocess.Popen[bytes], limit_s: float, ended: Callable[[], bool]
) -> bytes:
    """All bytes from the pipe until it is closed or the tracer's parent ends.

    A process of the tracer may keep the pipe open after the parent's end, so both are watched.
    """
    until = time.monotonic() + limit_s
    poll = select.poll()
    poll.register(source, select.POLLIN)
    parts: list[bytes] = []
    size = 0
    while True:
        gone = tracer.poll() is not None
        if poll.poll(0 if gone else 200):
            part = os.read(source, 1 << 20)
            parts.append(part)
            size += len(part)
            if size > MAX_DOCUMENT:
                raise NotTraced("the trace is longer than 64 MiB; trace a smaller model")
            if part:
                continue
            gone = True
        if gone:
            break
        if time.monotonic() > until:
            raise NotTraced(f"the trace took longer than {limit_s:g} s")
        if ended():
            raise Unwanted("nobody waits for it any more")
    if not size:
        raise NotTraced("the tracer ended and sent no trace")
    return b"".join(parts)
