"""Measure the effect of attacks on the daemon: answer times for other users, and memory.

    sudo .venv/bin/python -m benchmarks.serving.attacks [JOBS [ELEMENTS]]

Needs root, to connect as several users. Each attack lasts some seconds; meanwhile another user
continuously asks for a page of `status`. It is not part of `make bench`, because it takes minutes
and half of the machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from benchmarks.real import occupy, running_daemon
from benchmarks.run import table
from benchmarks.table import Row, median_ms
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.tickets import new_ticket
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

LIMIT_MS = 1000.0
LIMIT_MIB = 200.0
ATTACKER, ANOTHER, OTHER = 4001, 4002, 4003
GLOBS = 10_000
NAME = "a" * 50

_as_user = threading.Lock()


class Talker:
    """A connection of a user that writes requests and may read answers."""

    def __init__(self, home: DaemonHome, uid: int) -> None:
        run = Path(home.environment["RADRM_HOME"]) / "run"
        self.socket = socket.socket(socket.AF_UNIX)
        # As in the client: wait in the kernel's queue of new connections.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
        with _as_user:  # the kernel records a connection's user when it is made
            for path in (run, run.parent, run.parent.parent):
                path.chmod(0o711)
            (run / "radrm.sock").chmod(0o666)
            os.seteuid(uid)
            try:
                self.socket.connect(str(run / "radrm.sock"))
            finally:
                os.seteuid(0)
        self.socket.settimeout(60.0)
        self.lines = self.socket.makefile("rb")

    def send(self, op: str, **words: Any) -> None:
        self.socket.sendall(json.dumps({"op": op, **words}).encode() + b"\n")

    def ask(self, op: str, **words: Any) -> Any:
        self.send(op, **words)
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the daemon closed the connection")
        answer = json.loads(line)
        if not answer["ok"]:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


def _fork() -> int:
    """Fork while no thread has changed the process's effective user."""
    with _as_user:
        return os.fork()


Attack = Callable[[DaemonHome], None]
"""Runs until its process is killed."""


@contextlib.contextmanager
def _attacked(attack: Attack, home: DaemonHome) -> Iterator[None]:
    """Attack from a separate process while the block runs."""
    attacker = _fork()
    if not attacker:
        try:
            attack(home)
        except BaseException as error:
            print(f"the attack ended: {error!r}", file=sys.stderr)
        os._exit(1)
    try:
        yield
    finally:
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)


def globs(home: DaemonHome) -> None:
    """Send 10,000 globs in one request, and 100, which is the most allowed, repeatedly."""
    patterns = [f"*{'a*' * 20}{n}*b" for n in range(GLOBS)]
    talker = Talker(home, ATTACKER)
    while True:
        for words in (patterns, patterns[:100]):
            with contextlib.suppress(RuntimeError):
                talker.ask("cancel", jobs=words)


def readers(home: DaemonHome) -> None:
    """Open 40 connections that ask for all jobs and read no answer."""
    while True:
        talkers: list[Talker] = []
        for _ in range(40):
            with contextlib.suppress(OSError):
                talkers.append(Talker(home, ATTACKER))
                for _ in range(20):
                    talkers[-1].send("status", after=0)
        time.sleep(5)
        for talker in talkers:
            talker.close()


def idlers(home: DaemonHome) -> None:
    """Open 300 connections of two users that send nothing, or half a request."""
    talkers = []
    for n in range(300):
        with contextlib.suppress(OSError):
            talkers.append(Talker(home, (ATTACKER, ANOTHER)[n % 2]))
            talkers[-1].socket.sendall(b"[" * 200_000 if n % 4 == 0 else b"{")
    time.sleep(3600)


def flood(home: DaemonHome) -> None:
    """Open and close connections as fast as possible."""
    while True:
        talkers = []
        for _ in range(100):
            with contextlib.suppress(OSError):
                talkers.append(Talker(home, ATTACKER))
        for talker in talkers:
            talker.close()


def pages(home: DaemonHome) -> None:
    """Let 50 clients ask for pages without a pause."""

    def ask(offset: int) -> None:
        talker = Talker(home, ATTACKER)
        while True:
            talker.ask("page", offset=offset, limit=40)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def large_envelopes(home: DaemonHome) -> None:
    """Submit 40 different envelopes of 7 MiB at once."""
    environments = [{f"A{i}": os.urandom(50_000).hex() for i in range(72)} for _ in range(40)]
    _become_attacker(home)
    for environment in environments:
        _put(home, [{"gpus": "0", "output": os.devnull}], environment=environment)
    time.sleep(3600)


def long_environments(home: DaemonHome) -> None:
    """Run processes with environments of a GiB, and kill the runners of their user's jobs. The
    daemon then looks for the rest of these jobs in the environments of all processes."""
    for _ in range(8):
        if not _fork():
            _become_attacker(home)
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _lengthen_environment(1 << 30)
            time.sleep(3600)
    attempts, killed = Path(home.environment["RADRM_HOME"]) / "attempts", set()
    while True:
        child = _fork()
        if not child:
            _become_attacker(home)
            _put(home, [{"gpus": "0", "output": os.devnull}], command=("sleep", "1000"))
            os._exit(0)
        os.waitpid(child, 0)
        time.sleep(1.0)
        for record in attempts.glob("*/start.json"):
            with contextlib.suppress(OSError, ValueError):
                runner = json.loads(record.read_bytes())["runner_pid"]
                if runner not in killed:
                    killed.add(runner)
                    os.kill(runner, signal.SIGKILL)


def _lengthen_environment(length: int) -> None:
    """Make the kernel report `length` bytes of memory as this process's environment."""

    class Map(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in _MAP] + [
            ("auxv_size", ctypes.c_uint32),
            ("exe_fd", ctypes.c_uint32),
        ]

    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _kept.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    stat = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    numbers = (26, 27, 45, 46, 47, 47, 28, 48, 49)  # of the fields in proc(5)
    now = [int(stat[number - 3]) for number in numbers]
    wanted = Map(*now, start, start + length, 0, 0, 2**32 - 1)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(wanted), ctypes.sizeof(wanted), 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_MM_MAP)")


_kept: list[mmap.mmap] = []
_PR_SET_PDEATHSIG, _PR_SET_MM, _PR_SET_MM_MAP = 1, 35, 14
_MAP = [
    "start_code",
    "end_code",
    "start_data",
    "end_data",
    "start_brk",
    "brk",
    "start_stack",
    "arg_start",
    "arg_end",
    "env_start",
    "env_end",
    "auxv",
]


def _become_attacker(home: DaemonHome) -> None:
    """Change this process's user to the attacker, who may write to the spool as on a system."""
    folder = Path(home.environment["RADRM_HOME"])
    folder.parent.chmod(0o711)
    folder.chmod(0o711)
    (folder / "spool").chmod(0o1777)
    os.setgroups([])
    os.setgid(ATTACKER)
    os.setuid(ATTACKER)


def _command(home: DaemonHome, elements: int, **words: Any) -> None:
    """Give a command about the array from a separate process, because its answer is long."""
    child = _fork()
    if not child:
        results = Talker(home, 0).ask(jobs=["2"], **words)
        os._exit(len(results) != elements or any(each["error"] for each in results))
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the command failed: {words['op']}")


@contextlib.contextmanager
def _measured(home: DaemonHome, what: str, rows: list[Row]) -> Iterator[None]:
    """Add rows for the slowest answer to another user and the memory while the block runs."""
    assert home.process is not None
    daemon, over = psutil.Process(home.process.pid), threading.Event()
    before, most, times = daemon.memory_info().rss, 0, []

    def ask() -> None:
        nonlocal most
        while not over.is_set():
            began = time.monotonic()
            talker = Talker(home, OTHER)
            talker.ask("page", offset=0, limit=20)
            talker.close()
            times.append(time.monotonic() - began)
            most = max(most, daemon.memory_info().rss)
            over.wait(0.02)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()
    detail = f"median {median_ms(times):.0f} ms of {len(times)}"
    rows.append(
        Row(f"{what}: slowest answer to another user", max(times) * 1e3, LIMIT_MS, "ms", detail)
    )
    rows.append(Row(f"{what}: memory above idle", (most - before) / 2**20, LIMIT_MIB, "MiB"))


def measure(jobs: int = 20_000, elements: int = 100_000, seconds: float = 20.0) -> list[Row]:
    rows: list[Row] = []
    with running_daemon() as home:
        occupy(home)
        _put(home, [{"name": f"{NAME}{n}"} for n in range(jobs)])
        _taken_in(home, jobs)
        attacks: dict[str, Attack] = {
            f"{GLOBS:,} globs": globs,
            "40 readers that never read": readers,
            "300 idle connections": idlers,
            "a flood of connections": flood,
            f"50 clients page {jobs:,} jobs": pages,
            "40 submissions of 7 MiB": large_envelopes,
            "environments of a GiB": long_environments,
        }
        for what, attack in attacks.items():
            with _measured(home, what, rows), _attacked(attack, home):
                time.sleep(seconds)
        home.ask("cancel", state="pending")
    with running_daemon() as home:
        occupy(home)
        _put(home, [{"name": "sweep", "array": f"0-{elements - 1}"}])
        _taken_in(home, elements)
        size = _on_disk(home)
        edit = {"op": "edit", "options": {"env": ["A=" + "x" * 60_000]}}
        commands = {"first edit": edit, "second edit": edit, "cancel": {"op": "cancel"}}
        for what, words in commands.items():
            with _measured(home, f"{what} of {elements:,} elements", rows):
                began = time.monotonic()
                _command(home, elements, **words)
            grown = f"{(_on_disk(home) - size) / 2**20:.0f} MiB more on disk"
            rows.append(
                Row(f"{what}: the command itself", time.monotonic() - began, 120.0, "s", grown)
            )
    return rows


def _put(
    home: DaemonHome,
    options: list[dict[str, str]],
    command: tuple[str, ...] = ("true",),
    environment: dict[str, str] | None = None,
) -> None:
    spool = Spool(os.path.join(home.environment["RADRM_HOME"], "spool"))
    envelopes = [
        Envelope(
            ticket=new_ticket(),
            file=None,
            script=None,
            command=command,
            options=each,
            cwd=str(home.work) if os.getuid() == 0 else "/",
            umask=0o022,
            environment={"PATH": os.defpath, **(environment or {})},
            submitted_s=time.time(),
        )
        for each in options
    ]
    for i in range(0, len(envelopes), 1000):
        spool.put(envelopes[i : i + 1000])


def _taken_in(home: DaemonHome, jobs: int) -> None:
    def there() -> bool:
        return bool(home.ask("page", limit=1)["counts"].get("PENDING", 0) >= jobs)

    wait_until(there, "the jobs to be taken in", patience_s=600.0)


def _on_disk(home: DaemonHome) -> int:
    folder = Path(home.environment["RADRM_HOME"])
    return sum(f.stat().st_size for f in folder.rglob("radrm.sqlite*"))


def main() -> int:
    if os.geteuid() != 0:
        print("benchmarks.serving.attacks needs root, to connect as several users", file=sys.stderr)
        return 2
    rows = measure(*map(int, sys.argv[1:]))
    Console(width=160).print(table(rows))
    return 0 if all(row.fine for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
