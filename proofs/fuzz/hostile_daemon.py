"""Hostile inputs for a real daemon, by four ways: its socket, its spool, users' folders, reports.

Theory of operation. As root on a machine that lets it, the daemon is a system's: in a mount
namespace of its own, with empty folders in the place of /var/lib/radrm and /run/radrm. Then all
inputs come from another user than the daemon's. Else it is a user's own daemon. Between inputs the
daemon has to answer a ping; at the end an honest job has to run, the log may have no traceback, and
the daemon's memory may not have grown by more than `MOST_GROWN_MIB`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import random
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from proofs.fuzz.judging import LONGEST_MESSAGE
from proofs.fuzz.mutations import Mutator, as_bytes
from proofs.fuzz.targets.attempts import TARGETS as OF_ATTEMPTS
from proofs.fuzz.targets.job_files import COMMAND, ENVELOPE, ROLES, SCRIPT
from proofs.fuzz.targets.requests import REQUESTS
from proofs.processes import cpu_s, figures
from proofs.server import driver
from radrm.client.connection import Client
from radrm.errors import RadrmError
from radrm.host.sockets import connect
from radrm.host.storage.paths import paths_for
from radrm.host.storage.tickets import new_ticket
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

MOST_GROWN_MIB = 64.0
PING_S = 30.0
"""Real seconds within which the daemon answers a ping, also under load."""
HOSTILE = 65534
"""The user that sends it all, where the daemon is root's: `nobody`."""
_BATCH = 500
_SENDERS = 8
_MOST_CHARACTERS = 100_000
_INSIDE = "RADRM_FUZZ_NAMESPACE"

_HELD_SCRIPTS = tuple(
    text.replace("#RAD ", "#RAD --hold --chdir=/\n#RAD ", 1)
    for text in (SCRIPT, ROLES, "#!/bin/sh\n#RAD --gpus=0 --name=held\ntrue\n")
)


@dataclass
class Attack:
    """What an attack has done so far, and what it has found."""

    home: DaemonHome
    user: int
    random: Random
    inputs: int = 0
    accepted: int = 0
    findings: dict[str, str] = field(default_factory=dict)

    def found(self, what: str, given: object) -> None:
        self.findings.setdefault(what, f"{what}: {given!r:.1500}")

    def look(self) -> None:
        """The daemon lives, answers a ping in time, and its log has no traceback."""
        began_s = time.monotonic()
        try:
            self.home.ask("ping")
        except RadrmError as error:
            self.found(f"no answer to a ping: {error}", self.home.said()[-300:])
        if time.monotonic() - began_s > PING_S:
            self.found(f"a ping takes more than {PING_S:g} s", "")
        said = self.home.said()
        if "Traceback" in said:
            self.found("a traceback in the log", said[said.index("Traceback") :][:1500])
        if wrong := re.search(r".*(?:cannot be taken in|cannot be read as a job).*", said):
            self.found("an error that nobody expected", wrong[0])

    def run_honest_job(self) -> None:
        """A job of the daemon's own user runs, on a GPU."""
        self.home.ask("resume", devices=[])
        job = self.home.submit("--gpu-memory=1G", "--time=600", "--", "true")
        state = self.home.wait_end(job)["state"]
        if state != "COMPLETED":
            self.found(f"an honest job is {state}", self.home.job(job))

    @contextlib.contextmanager
    def as_user(self) -> Iterator[None]:
        """Within the block this process's files and connections are the hostile user's."""
        if self.user == os.geteuid():
            yield
            return
        os.seteuid(self.user)
        try:
            yield
        finally:
            os.seteuid(0)


# ------------------------------------------------------------------ the four ways


def _requests(attack: Attack, count: int) -> None:
    """Requests of every kind, whole and half, of the hostile user and a tenth of the owner."""
    mutator = Mutator(attack.random, REQUESTS, _MOST_CHARACTERS)
    path = paths_for(attack.home.environment, os.getuid()).socket
    _submit_targets(attack)
    talker: socket.socket | None = None
    for number in range(count):
        if number % _BATCH == 0:
            attack.look()
            talker = _closed(talker)
        if talker is None:
            with contextlib.nullcontext() if number % 5000 < _BATCH else attack.as_user():
                talker = connect(path, PING_S)
        data = as_bytes(mutator.input())
        attack.inputs += 1
        if number % 50 == 49:  # half a line, and the end
            with contextlib.suppress(OSError):
                talker.sendall(data[: attack.random.randrange(len(data) + 1)])
            talker = _closed(talker)
            continue
        data = data.replace(b"\n", b" ").strip() or b"0"
        answer = _answer(talker, data)
        if answer is None:
            talker = _closed(talker)  # a line that was too long
        else:
            _check_answer(attack, data, answer)
    _closed(talker)


def _submit_targets(attack: Attack) -> None:
    """Jobs of the hostile user for which its commands count: held, an array, one that runs."""
    for options in ({"gpus": "0"}, {"gpus": "0", "hold": True}, {"gpus": "0", "array": "1-5"}):
        _put(attack, {**COMMAND, "command": ["sleep", "60"], "cwd": "/", "options": options})
    _wait_until_taken(attack)


def _answer(talker: socket.socket, data: bytes) -> bytes | None:
    """The answer to one line; None if the daemon has closed the connection."""
    found = b""
    try:
        talker.sendall(data + b"\n")
        while not found.endswith(b"\n"):
            part = talker.recv(1 << 16)
            if not part:
                return None
            found += part
    except (BrokenPipeError, ConnectionResetError):
        return None
    return found


def _check_answer(attack: Attack, data: bytes, line: bytes) -> None:
    answer = json.loads(line)
    if answer["ok"]:
        attack.accepted += 1
        return
    error = answer["error"]
    if len(error.splitlines()) != 1 or not error.isprintable() or len(error) > LONGEST_MESSAGE:
        attack.found("an error that is not one short line", (error, data[:200]))
    if "could not answer" in error:
        attack.found("an error that nobody expected", (error, data[:200]))


def _closed(talker: socket.socket | None) -> None:
    if talker is not None:
        talker.close()


def _envelopes(attack: Attack, count: int) -> None:
    """Files in the spool: envelopes that are nearly right, and names and kinds that are not."""
    examples = tuple(
        {**each, "options": {**each["options"], "hold": True}, "cwd": "/nowhere"}
        for each in (ENVELOPE, COMMAND)
    )
    mutator = Mutator(attack.random, examples, _MOST_CHARACTERS)
    for number in range(count):
        attack.inputs += 1
        ticket = new_ticket()
        data = as_bytes(mutator.input())
        if attack.random.random() < 0.9:
            data = data.replace(str(ENVELOPE["ticket"]).encode(), ticket.encode())
        _put_bytes(attack, f"{ticket}.job", data, 0o600 if number % 20 else 0o644)
        if number % _BATCH == _BATCH - 1 or number == count - 1:
            _wait_until_taken(attack)
            attack.look()
            _count_jobs(attack)


def _put(attack: Attack, document: dict[str, Any]) -> None:
    """Submit a job. It has no logs: the user may write in no folder of the daemon's."""
    ticket = new_ticket()
    options = {**document["options"], "output": "/dev/null", "error": "/dev/null"}
    data = json.dumps({**document, "options": options, "ticket": ticket}).encode()
    _put_bytes(attack, f"{ticket}.job", data, 0o600)


def _put_bytes(attack: Attack, name: str, data: bytes, mode: int) -> None:
    spool = paths_for(attack.home.environment, os.getuid()).spool
    draft = os.path.join(spool, f".{name.removesuffix('.job')}")
    with attack.as_user():
        Path(draft).write_bytes(data)
        os.chmod(draft, mode)
        os.rename(draft, os.path.join(spool, name))


def _wait_until_taken(attack: Attack) -> None:
    spool = Path(paths_for(attack.home.environment, os.getuid()).spool)
    attack.home.ask("intake", jobs=["01M80TA4D4JDCEV010A4H87B41"])
    wait_until(lambda: not any(_waits(each) for each in spool.glob("*.job")), "the spool", 300.0)


def _waits(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _count_jobs(attack: Attack) -> None:
    """Count the jobs that were made, and end them, so that the queue stays short."""
    answer = attack.home.ask("page", user=_name(attack.user), limit=1)
    attack.accepted += answer["total"]
    with contextlib.suppress(RadrmError):
        attack.home.ask("cancel", user=_name(attack.user))


def _name(uid: int) -> str:
    return pwd.getpwuid(uid).pw_name


def _rad_files(attack: Attack, count: int) -> None:
    """Job files in the user's folder, with names that only the kernel takes."""
    mutator = Mutator(attack.random, _HELD_SCRIPTS, _MOST_CHARACTERS)
    names = Mutator(attack.random, ("train.rad", "ä b.rad", ".x.rad", "a\nb.rad"), 200)
    with attack.as_user(), Client((paths_for(attack.home.environment, os.getuid()),)) as client:
        folder = client.ask("spool")
    for number in range(count):
        attack.inputs += 1
        name = as_bytes(names.input()).replace(b"\0", b"").replace(b"/", b"")[:150]
        path = os.path.join(os.fsencode(folder), b"%d-" % number + name + b".rad")
        with attack.as_user():
            draft = path + b".tmp"
            Path(os.fsdecode(draft)).write_bytes(as_bytes(mutator.input()))
            os.rename(draft, path)
        if number % _BATCH == _BATCH - 1 or number == count - 1:
            wait_until(lambda: not _rad_files_in(folder), f"the files in {folder}", 300.0)
            _wait_until_taken(attack)
            attack.look()
            _count_jobs(attack)


def _rad_files_in(folder: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".rad")]


def _reports(attack: Attack, count: int) -> None:
    """Datagrams of jobs that run. The daemon takes a limited number of each job in a second."""
    target = next(each for each in OF_ATTEMPTS if each.name == "progress-report")
    run = Path(paths_for(attack.home.environment, os.getuid()).run)
    before, senders = set(_sockets(run)), min(_SENDERS, 1 + count // 50)
    for _ in range(senders):
        words = ["sleep", "100000"]
        _put(attack, {**COMMAND, "command": words, "cwd": "/", "options": {"gpus": "0"}})
    wait_until(lambda: len(set(_sockets(run)) - before) >= senders, "the jobs' sockets")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for number, data in enumerate(islice(target.inputs(str(attack.random.random())), count)):
            attack.inputs += 1
            wait_until(partial(_sent, sender, data, run), "a job that reports")
            if number % _BATCH == _BATCH - 1:
                attack.look()
                attack.home.ask("page", limit=50)
    _count_jobs(attack)


def _sent(sender: socket.socket, data: bytes, run: Path) -> bool:
    """Send a datagram to a job; False if none takes it now."""
    for path in random.sample(paths := _sockets(run), len(paths)):
        try:
            sender.sendto(data, str(path))
            return True
        except OSError as error:
            if error.errno == errno.EMSGSIZE:  # the kernel lets nobody send so much at once
                return True
    return False


def _sockets(run: Path) -> list[Path]:
    return list(run.glob("progress/*/socket"))


# ------------------------------------------------------------------ the daemon


@dataclass(frozen=True)
class Way:
    """One way in. `parts`: how many inputs it gets for each input of a parser."""

    act: Callable[[Attack, int], None]
    part: float

    def prefix(self) -> list[str]:
        """The command that runs a program where it may have a system's daemon."""
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            return []
        return ["env", f"{_INSIDE}=1", "unshare", "--mount", "--propagation=private"]


WAYS = {
    "daemon-requests": Way(_requests, 1.0),
    "daemon-envelopes": Way(_envelopes, 0.1),
    "daemon-rad-files": Way(_rad_files, 0.04),
    "daemon-reports": Way(_reports, 0.1),
}


def attack(name: str, inputs: int, seed: str) -> dict[str, Any]:
    """Attack a daemon of its own by one way; return the row of the report."""
    way = WAYS[name]
    with _home() as (home, user):
        found = Attack(home, user, Random(f"{name} {seed}"))
        return against(found, name, max(1, int(inputs * way.part)))


def against(attack: Attack, name: str, count: int) -> dict[str, Any]:
    """Attack a daemon that runs."""
    way, home = WAYS[name], attack.home
    pid = home.process.pid
    attack.run_honest_job()
    began_s, first = cpu_s(pid), count // 5
    way.act(attack, first)
    before_mib = figures(pid)["VmRSS"] / 1024
    way.act(attack, count - first)
    grown_mib = figures(pid)["VmRSS"] / 1024 - before_mib
    attack.look()
    attack.run_honest_job()
    if grown_mib > MOST_GROWN_MIB:
        attack.found(f"the daemon's memory has grown by {grown_mib:.0f} MiB", count)
    return {
        "target": name,
        "inputs": attack.inputs,
        "accepted": attack.accepted,
        "cpu_s": cpu_s(pid) - began_s,
        "grown_mib": grown_mib,
        "findings": list(attack.findings.values()),
    }


@contextlib.contextmanager
def _home() -> Iterator[tuple[DaemonHome, int]]:
    """A running daemon, and the hostile user."""
    with tempfile.TemporaryDirectory(prefix="radrm-fuzz-", dir="/tmp") as folder:
        home, user = DaemonHome(Path(folder), scale=20.0), os.geteuid()
        home.environment["RADRM_CONFIG"] = str(home.file("radrm.toml", ""))
        home.settings = [f"core.gpuless_at_once={2 * _SENDERS}"]
        if os.environ.get(_INSIDE):
            user = HOSTILE
            del home.environment["RADRM_HOME"]
            for place in ("/var/lib/radrm", "/run/radrm"):
                os.makedirs(place, exist_ok=True)
                subprocess.run(["mount", "-t", "tmpfs", "fuzz", place], check=True)
        try:
            home.start()
            yield home, user
        finally:
            home.close()
            paths = paths_for(home.environment, os.getuid())
            with contextlib.suppress(RadrmError), driver(paths) as client:
                client.ask("quit")  # a system's, which `close` does not find
