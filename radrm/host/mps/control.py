"""One MPS control daemon: start it, ask it, end it. Its keeper decides when.

Theory of operation. A pipe directory identifies a control daemon: it has the pid file and the
sockets. A pid file may be stale and its pid reused. So a pid counts only if its process runs the
program with this pipe directory, as far as radrm may read its environment; signals go to that
`Identity`. Control daemons outlive radrm: after a restart the pid file leads to the same one, and
its command line and environment show its options and GPUs. A command may take as long as its
timeout, so the daemon's own thread never sends one.

Commands go to the standard input of `nvidia-cuda-mps-control` (CUDA Multi-Process Service guide,
appendix "Tools and interface reference"), without a shell. A control daemon takes one connection
at a time and refuses others ("Cannot send command to MPS control daemon process", reported for
driver 580), so commands wait for one another: those of several threads, and, by a lock on a file
beside the pipe directory, those of the runners (`end_clients.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from radrm.errors import DeviceError
from radrm.host.processes.identity import Identity, alive, identify, send_signal
from radrm.host.processes.procfs import TOKEN_VARIABLE, start_of, status_of
from radrm.jobfile.record import Record

PROGRAM = "nvidia-cuda-mps-control"
SERVER = "nvidia-cuda-mps-server"
PID_FILE = f"{PROGRAM}.pid"
LONGEST_SOCKET = "control_privileged"
"""The longest name of a control daemon's sockets."""
LONGEST_ADDRESS = 107
"""Most bytes in the address of an AF_UNIX socket."""
MULTIUSER = ("-multiuser-server", "-M")
"""Options that make servers take clients of several users at once: the one in the MPS guide
("The MPS server"), and the one of some versions. Older versions know neither."""
OPEN_FILES = 16384
"""The limit that NVIDIA recommends for MPS (MPS guide, "File descriptor limit")."""

ACTIVE, INITIALIZING, FAULT = "ACTIVE", "INITIALIZING", "FAULT"
UNKNOWN = "unknown"

_ANSWER_S = 2.0
_START_S = 15.0
_PAUSE_S = 0.02
_PID_LINE = re.compile(r"^[ \t]*([0-9]{1,10})[ \t\r]*$", re.MULTILINE)
_STATUS = re.compile(rf"\b({ACTIVE}|{INITIALIZING}|{FAULT})\b")


class NoAnswer(DeviceError):
    """A control daemon does not answer, or answers wrongly."""


class Missing(NoAnswer):
    """MPS is not installed."""


class Server(Record):
    """An MPS server process.

    `status` is ACTIVE, INITIALIZING or FAULT; UNKNOWN if the control daemon is too old to report
    it. `multiuser` is whether it takes clients of several users; None while no client shows it.
    """

    pid: int
    status: str
    clients: tuple[int, ...] = ()
    multiuser: bool | None = None


class Control:
    """The control daemon of one pipe directory, running or not.

    `uuid` is the GPU that a new one serves, as its GPU 0.
    `multiuser`: servers of a new one should take clients of several users at once.
    """

    def __init__(
        self,
        pipes: str,
        logs: str,
        uuid: str = "",
        program: str = PROGRAM,
        multiuser: bool = False,
    ) -> None:
        self.program = program
        self.pipes = pipes
        self.logs = logs
        self.uuid = uuid
        self.multiuser = multiuser
        self._line = threading.Lock()

    # -------------------------------------------------------------- identity

    def process(self) -> Identity | None:
        """Return the running control daemon of this pipe directory; None if there is none."""
        try:
            with open(os.path.join(self.pipes, PID_FILE), "rb") as file:
                pid = int(file.read(20))
        except (OSError, ValueError):
            return None
        who = identify(pid) if pid > 1 else None
        if who is None or not alive(who):
            return None
        environment = _environment_of(pid)  # empty if radrm may not read it
        pipes = environment.get("CUDA_MPS_PIPE_DIRECTORY", "") if environment else self.pipes
        return who if pipes == self.pipes and PROGRAM in _command_of(pid) else None

    def has_multiuser_option(self) -> bool:
        """Return whether the running one was started with an option of `MULTIUSER`."""
        who = self.process()
        words = _proc(who.pid, "cmdline").split("\0") if who else []
        return any(word in MULTIUSER for word in words)

    # -------------------------------------------------------------- starting

    def missing(self) -> str | None:
        """Return why no control daemon can start here; None if the program is installed."""
        if shutil.which(self.program) is not None:
            return None
        return f"{self.program} is not on PATH; install the driver's compute tools"

    def start(self) -> Identity:
        """Start one; remove the files of a dead one, but keep its logs.

        The caller has checked that none is running. If it refuses the options of `MULTIUSER`, it
        starts without them. Raises `Missing`, or `NoAnswer` with its output.
        """
        if (missing := self.missing()) is not None:
            raise Missing(missing)
        address = os.fsencode(os.path.join(self.pipes, LONGEST_SOCKET))
        if len(address) > LONGEST_ADDRESS:
            raise NoAnswer(
                f"the path {self.pipes} is too long for the sockets of {PROGRAM} "
                f"({len(address)} bytes, the limit is {LONGEST_ADDRESS}); "
                "set RADRM_HOME or XDG_RUNTIME_DIR to a folder with a shorter name"
            )
        try:
            for folder in (os.path.dirname(self.pipes), self.pipes, self.logs):
                if not os.path.isdir(folder):
                    os.makedirs(folder)
                    os.chmod(folder, 0o755)  # clients of other users must reach it
            for options in [[word] for word in MULTIUSER if self.multiuser] + [[]]:
                self._clean()
                printed, code = self._run_daemon(options)
                who = self._settled() if code == 0 else None
                if who is not None:
                    break
        except OSError as error:
            raise NoAnswer(f"{self.program} cannot be started: {error}") from error
        if who is None:
            cause = _first_line(printed) or f"exit code {code}, and it left no process"
            raise NoAnswer(f"{PROGRAM} did not start: {cause}; see {self.logs}/control.log")
        _allow_files(who.pid)
        return who

    def _settled(self) -> Identity | None:
        """Wait for the pid file and return the process; None if there is none in time."""
        deadline = time.monotonic() + _ANSWER_S
        while (who := self.process()) is None and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return who

    def _clean(self) -> None:
        """Remove the sockets, pipes and pid file of a dead one."""
        with os.scandir(self.pipes) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)

    def _run_daemon(self, options: Sequence[str]) -> tuple[str, int]:
        # A file, not a pipe: the background process could hold a pipe open for ever.
        with tempfile.TemporaryFile() as printed:
            environment = {**self._environment(), "CUDA_VISIBLE_DEVICES": self.uuid}
            try:
                code = subprocess.run(
                    [self.program, "-d", *options],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                    cwd="/",
                    start_new_session=True,
                    timeout=_START_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                raise NoAnswer(
                    f"{PROGRAM} did not go into the background within {_START_S:g} s; "
                    f"see {self.logs}/control.log"
                ) from None
            printed.seek(0)
            return printed.read(4096).decode(errors="replace"), code

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        kept.pop(
            TOKEN_VARIABLE, None
        )  # a job may have started radrm; the control daemon is not part of it
        paths = {"CUDA_MPS_PIPE_DIRECTORY": self.pipes, "CUDA_MPS_LOG_DIRECTORY": self.logs}
        return {**kept, **paths}

    # -------------------------------------------------------------- asking

    def ask(self, command: str, timeout_s: float = _ANSWER_S) -> str:
        """Return its answer to a command, within `timeout_s` real seconds. Raises `NoAnswer`."""
        deadline = time.monotonic() + timeout_s
        if not self._line.acquire(timeout=timeout_s):
            raise NoAnswer(f"{PROGRAM} is busy with another command for {timeout_s:g} s")
        try:
            with self._alone(deadline):
                return self._send(command, timeout_s, max(0.01, deadline - time.monotonic()))
        finally:
            self._line.release()

    @contextlib.contextmanager
    def _alone(self, deadline: float) -> Iterator[None]:
        """Hold the lock of all processes of radrm. Without one, or after the deadline, go on."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock = os.open(f"{self.pipes}.lock", flags, 0o600)  # no user can hold it
        except OSError:
            yield  # then the control daemon may refuse the command
            return
        try:
            while not _locks(lock) and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
            yield
        finally:
            os.close(lock)

    def _send(self, command: str, timeout_s: float, left_s: float) -> str:
        try:
            done = subprocess.run(
                [self.program],
                input=f"{command}\n",
                env=self._environment(),
                capture_output=True,
                text=True,
                errors="replace",
                cwd="/",
                start_new_session=True,
                timeout=left_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"{PROGRAM} does not answer within {timeout_s:g} s") from None
        except OSError as error:
            raise NoAnswer(f"{self.program} cannot be run: {error.strerror}") from error
        if done.returncode != 0:
            cause = _first_line(done.stderr) or _first_line(done.stdout)
            raise NoAnswer(f"{PROGRAM}: {cause or f'exit code {done.returncode}'}")
        return done.stdout

    def probe(self) -> tuple[Server, ...]:
        """Check that it answers, and return its servers. Raises `NoAnswer`."""
        answer = self.ask("get_default_active_thread_percentage")
        if not re.search(r"\d", answer):
            raise NoAnswer(f"{PROGRAM} answers {_first_line(answer)!r}, not a number")
        return tuple(self._server(pid) for pid in self.server_pids())

    def _server(self, pid: int) -> Server:
        status = _STATUS.search(self.ask(f"get_server_status {pid}"))
        status_word = status[1] if status else UNKNOWN
        clients = tuple(self.client_pids(pid))
        return Server(pid, status_word, clients, takes_several(pid, clients))

    def server_pids(self, timeout_s: float = _ANSWER_S) -> list[int]:
        return _pids(self.ask("get_server_list", timeout_s))

    def client_pids(self, server: int, timeout_s: float = _ANSWER_S) -> list[int]:
        return _pids(self.ask(f"get_client_list {server}", timeout_s))

    def terminate_client(self, server: int, client: int, timeout_s: float = _ANSWER_S) -> None:
        """Remove a client's work in flight before its process is killed. Raises `NoAnswer`."""
        self.ask(f"terminate_client {server} {client}", timeout_s)

    def start_server(self, uid: int) -> None:
        """Ask it to start a server for this user, before a client does. Raises `NoAnswer`.

        Whether it does so shows in its list of servers: old ones do not know the command.
        """
        self.ask(f"start_server -uid {uid}")

    # -------------------------------------------------------------- ending

    def quit(self, timeout_s: float = _ANSWER_S) -> None:
        """Ask it to end, which it does after its last client. Raises `NoAnswer`."""
        self.ask("quit", timeout_s)

    def kill(self, servers: Iterable[int] = ()) -> None:
        """Kill it and these servers, also while they have clients."""
        found = [identify(pid) for pid in servers if SERVER in _command_of(pid)]
        for victim in (self.process(), *found):
            if victim is not None:
                send_signal(victim.pid, victim.start_ticks, signal.SIGKILL)


# ------------------------------------------------------------------ the user of a server


def takes_several(server: int, clients: Iterable[int]) -> bool | None:
    """Return whether a server takes clients of several users; None if no client shows it.

    A server for several users runs as root; any other runs as the user of its clients (MPS guide,
    "The MPS server"). So the first client that is not root's decides. The command line of the
    control daemon does not, because some drivers ignore the option.
    """
    server_uid = user_of(server)
    if server_uid is None:
        return None
    others = {uid for uid in map(user_of, clients) if uid}
    return server_uid == 0 if others else None


def user_of(pid: int) -> int | None:
    """Return the effective user id of a process; None if there is no such process."""
    words = status_of(pid, b"Uid").split()
    return int(words[1]) if len(words) > 1 else None


# ------------------------------------------------------------------ helpers


def _locks(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _pids(answer: str) -> list[int]:
    return [int(found) for found in _PID_LINE.findall(answer)]


def _first_line(text: str) -> str:
    line = next((s.strip() for s in text.splitlines() if s.strip()), "")
    return "".join(c for c in line[:200] if c.isprintable())


def _environment_of(pid: int) -> Mapping[str, str]:
    pairs = (pair.partition("=") for pair in _proc(pid, "environ").split("\0"))
    return {name: value for name, _, value in pairs if name}


def _command_of(pid: int) -> str:
    return _proc(pid, "cmdline").replace("\0", " ")


def _proc(pid: int, name: str) -> str:
    return os.fsdecode(start_of(f"/proc/{pid}/{name}"))


def _allow_files(pid: int) -> None:
    """Raise the limit of open files: servers inherit it and use some for every client."""
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
