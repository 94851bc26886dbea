"""radrm beside other queues of one server: submissions, starts, gaps, loops and arrays.

    make bench-peers                               # writes docs/lab/speed.md
    python -m benchmarks.peers --rounds 5 --loop 50 --array 100

Debian's task-spooler and nq are unpacked, and HyperQueue and runqd (gflow) installed from PyPI,
into a folder that goes afterwards, unless `--tools` names one that stays. Slurm is that of the
tests (root, Debian's packages). What cannot be had is left out, with the reason.

Each tool has a folder of its own and the same work: `date` writes down the time, or `echo` a line.
Rounds take turns between the tools, and `python -c pass` is timed in each, since the machine may
have other work.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import ClassVar

from benchmarks import markdown
from tests.daemon.harness import DaemonHome
from tests.slurm.cluster import MISSING, Cluster, installed, program
from tests.waiting import wait_until

_PATIENCE_S = 600.0
_DEBIAN, _PYPI = ("task-spooler", "nq"), ("hyperqueue", "runqd")
_HQ = """
import sys
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
cluster = LocalCluster(sys.argv[1], WorkerConfig(cores=int(sys.argv[2])))
client = cluster.client()
print("ready", flush=True)
for line in sys.stdin:
    count, text = line.rstrip("\\n").split(" ", 1)
    job = Job(max_fails=None)
    for _ in range(int(count)):
        job.program(["sh", "-c", text], stdout=None, stderr=None)
    client.submit(job)
    print("submitted", flush=True)
cluster.stop()
"""


def get_tools(folder: Path) -> None:
    """Put the packages into a folder, those that are not there and can be had."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _DEBIAN:
        if not list(folder.glob(f"{name}_*.deb")):
            _quietly(["apt-get", "download", name], cwd=folder)
        for package in folder.glob(f"{name}_*.deb"):
            _quietly(["dpkg-deb", "-x", str(package), str(folder)])
    if not (folder / "bin" / "python").exists():
        _quietly([sys.executable, "-m", "venv", str(folder)])
    for name in _PYPI:
        _quietly([str(folder / "bin" / "pip"), "install", "--quiet", name])


def _quietly(words: Sequence[str], cwd: Path | None = None) -> str:
    """Run a command; return its output, or nothing if it cannot run."""
    try:
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout or done.stderr


class Peer(ABC):
    """A tool with `slots` slots. `start` raises `OSError` or `AssertionError` if it cannot run."""

    name: ClassVar[str]
    """What an array is made of, if not by one command."""

    def __init__(self, tools: Path, folder: Path, slots: int) -> None:
        self.tools, self.folder, self.slots = tools, folder, slots
        self.work = folder
        self.env = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder)}

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def submit(self, text: str) -> None:
        """Submit a shell command."""

    def array(self, text: str, count: int) -> None:
        for _ in range(count):
            self.submit(text)

    def close(self) -> None:
        """Stop what `start` has started; a tool without a daemon has nothing."""
        return


class CommandPeer(Peer):
    """A tool that takes a job by a command of its own."""

    @abstractmethod
    def words(self, text: str) -> list[str]:
        """Return the command that submits a shell command."""

    def submit(self, text: str) -> None:
        _checked(self.words(text), self.env, self.work)


def _checked(words: Sequence[str], env: dict[str, str], cwd: Path) -> None:
    done = subprocess.run(
        words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:300]


class Radrm(CommandPeer):
    name = "radrm"

    def version(self) -> str:
        return _quietly([sys.executable, "-m", "radrm.cli.main", "--version"]).split()[-1]

    def start(self) -> None:
        self._home = DaemonHome(self.folder / "h", f"sim:{self.slots}xA100-40GB", scale=1.0)
        self._home.settings = ["policy=exclusive"]
        self._home.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._home.start()
        self.env, self.work = self._home.environment, self._home.work
        self._radrm = str(Path(sys.executable).with_name("radrm"))

    def words(self, text: str) -> list[str]:
        return [self._radrm, "submit", "--gpu-memory=1G", "--", "sh", "-c", text]

    def array(self, text: str, count: int) -> None:
        words = ["submit", f"--array=0-{count - 1}", "--gpus=0", "--", "sh", "-c", text]
        _checked([self._radrm, *words], self.env, self.work)

    def close(self) -> None:
        self._home.close()


class TaskSpooler(CommandPeer):
    name = "task-spooler"

    def version(self) -> str:
        return _quietly([self._tsp, "-V"]).partition(" - ")[0].split()[-1]

    def start(self) -> None:
        self._tsp = str(self.tools / "usr" / "bin" / "tsp")
        self.env["TS_SOCKET"] = str(self.folder / "s")
        self.env["TS_MAXFINISHED"] = "10"
        _checked([self._tsp, "-S", str(self.slots)], self.env, self.work)

    def words(self, text: str) -> list[str]:
        return [self._tsp, "-n", "sh", "-c", text]

    def close(self) -> None:
        _checked([self._tsp, "-K"], self.env, self.work)


class Nq(CommandPeer):
    name = "nq"

    def version(self) -> str:
        (package,) = self.tools.glob("nq_*.deb")
        return package.name.split("_")[1]

    def start(self) -> None:
        self._nq = str(self.tools / "usr" / "bin" / "nq")
        self.env["NQDIR"] = str(self.folder)
        _checked([self._nq, "true"], self.env, self.work)

    def words(self, text: str) -> list[str]:
        return [self._nq, "-q", "sh", "-c", text]


class HyperQueue(Peer):
    """It has no command on PyPI: one process submits by its API."""

    name = "HyperQueue"

    def version(self) -> str:
        found = _quietly([str(self.tools / "bin" / "pip"), "list"])
        return next(each.split()[1] for each in found.split("\n") if each.startswith("hyperqueue"))

    def start(self) -> None:
        words = [str(self.tools / "bin" / "python"), "-c", _HQ, str(self.folder / "hq")]
        pipe, gone = subprocess.PIPE, subprocess.DEVNULL
        self._server = subprocess.Popen(
            [*words, str(self.slots)],
            env=self.env,
            cwd=self.work,
            stdin=pipe,
            stdout=pipe,
            stderr=gone,
            text=True,
        )
        self._answer("ready")

    def submit(self, text: str) -> None:
        self.array(text, 1)

    def array(self, text: str, count: int) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(f"{count} {text}\n")
        self._server.stdin.flush()
        self._answer("submitted")

    def _answer(self, word: str) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"HyperQueue ended before it was {word}")

    def close(self) -> None:
        self._server.communicate(timeout=60)


class Runqd(CommandPeer):
    """gflow. Its jobs need tmux; without GPUs it has no slots, so no gap and no loop of two."""

    name = "runqd (gflow)"

    def version(self) -> str:
        return _quietly([str(self.tools / "bin" / "gflowd"), "--version"]).split()[1]

    def start(self) -> None:
        self.env |= {"TMUX_TMPDIR": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)}
        gone = subprocess.DEVNULL
        self._daemon = subprocess.Popen(
            [str(self.tools / "bin" / "gflowd")], env=self.env, stdout=gone, stderr=gone
        )
        wait_until(lambda: self._is_up(), "gflowd")

    def _is_up(self) -> bool:
        assert self._daemon.poll() is None, "gflowd ended at once"
        words = [str(self.tools / "bin" / "gqueue")]
        return subprocess.run(words, env=self.env, capture_output=True).returncode == 0

    def words(self, text: str) -> list[str]:
        return [str(self.tools / "bin" / "gbatch"), "--auto-close", "sh", "-c", text]

    def close(self) -> None:
        self._daemon.terminate()
        self._daemon.wait()
        subprocess.run(["tmux", "kill-server"], env=self.env, capture_output=True)


class Slurm(CommandPeer):
    name = "Slurm"

    def version(self) -> str:
        return _quietly([program("slurmctld"), "-V"]).split()[-1]

    def start(self) -> None:
        assert installed(), MISSING
        self._cluster = Cluster()
        self._cluster.start()
        self.env, self.work = self._cluster.env, self._cluster.work
        nodes = "--nodelist=g1" if self.slots == 1 else "--exclude=g3"
        words = ("--parsable", "--partition=whole", "--exclusive", nodes, "--output=/dev/null")
        self._words = [program("sbatch"), *words]

    def words(self, text: str) -> list[str]:
        return [*self._words, f"--wrap={text}"]

    def array(self, text: str, count: int) -> None:
        words = [*self._words, f"--array=0-{count - 1}", f"--wrap={text}"]
        _checked(words, self.env, self.work)

    def close(self) -> None:
        self._cluster.stop()


PEERS = (Radrm, TaskSpooler, Nq, HyperQueue, Runqd, Slurm)


@contextmanager
def running(tools: Path, slots: int, left_out: dict[str, str]) -> Iterator[list[Peer]]:
    """The tools that can run here, each in a folder of its own; all end with the block."""
    with ExitStack() as stack:
        peers: list[Peer] = []
        for kind in PEERS:
            if slots > 1 and kind in (Nq, Runqd):
                continue
            folder = Path(
                stack.enter_context(
                    TemporaryDirectory(prefix="radrm-p-", ignore_cleanup_errors=True)
                )
            )
            peer = kind(tools, folder, slots)
            try:
                peer.start()
            except (OSError, AssertionError) as error:
                left_out[kind.name] = str(error)[:100]
                continue
            stack.callback(peer.close)
            peers.append(peer)
        yield peers


def _at(file: Path) -> float:
    """The time that a job has written."""
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"), str(file), _PATIENCE_S)
    return float(file.read_text())


def _starts(peer: Peer, number: int) -> dict[str, float]:
    """Seconds of a submission to an idle tool."""
    file = peer.folder / f"start-{number}"
    called = time.time()
    peer.submit(f"date +%s.%N >{file}")
    done = time.time()
    first = _at(file)
    return {"submit": done - called, "first": first - called, "after": max(0.0, first - done)}


def _gap(peer: Peer, number: int) -> float:
    """Seconds from the end of a job to the start of the next in one slot."""
    end, begin = peer.folder / f"end-{number}", peer.folder / f"begin-{number}"
    peer.submit(f"sleep 1.5; date +%s.%N >{end}")
    peer.submit(f"date +%s.%N >{begin}")
    return _at(begin) - _at(end)


def _many(peer: Peer, count: int, array: bool) -> float:
    """Seconds until all of many jobs have ended."""
    file = peer.folder / f"many-{array}"
    began, text = time.time(), f"echo >>{file}"
    if array:
        peer.array(text, count)
    else:
        Peer.array(peer, text, count)
    wait_until(
        lambda: file.exists() and file.stat().st_size >= count,
        f"{count} jobs of {peer.name}",
        _PATIENCE_S,
    )
    return time.time() - began


def _python() -> float:
    began = time.time()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.time() - began


ROWS = {
    "submit": "submission, which starts a job",
    "first": "submission to first instruction",
    "after": "of it after the acknowledgement",
    "gap": "end to next start, one slot",
    "loop": "{loop} submissions in a loop, two slots, until all have ended",
    "array": "an array of {array}",
}


def measure(
    tools: Path, rounds: int, loop: int, array: int
) -> tuple[dict[str, dict[str, float]], dict[str, str], dict[str, str], float]:
    """Medians in seconds by row and tool; versions; what is left out, and why; `python -c pass`."""
    found: dict[str, dict[str, list[float]]] = {row: {} for row in ROWS}
    left_out: dict[str, str] = {}
    python: list[float] = []
    with running(tools, 1, left_out) as peers:
        versions = {peer.name: peer.version() for peer in peers}
        for number in range(rounds):
            python.append(_python())
            for peer in peers:
                seen = _starts(peer, number)
                if not isinstance(peer, Runqd):
                    seen["gap"] = _gap(peer, number)
                for row, seconds in seen.items():
                    found[row].setdefault(peer.name, []).append(seconds)
    with running(tools, 2, left_out) as peers:
        for peer in peers:
            found["loop"][peer.name] = [_many(peer, loop, False)]
            found["array"][peer.name] = [_many(peer, array, True)]
            python.append(_python())
    medians = {row: {name: median(all_) for name, all_ in by.items()} for row, by in found.items()}
    return medians, versions, left_out, median(python)


def table(args: argparse.Namespace, began: Sequence[float]) -> str:
    """Measure, and return the section of the page."""
    medians, versions, left_out, python = measure(args.tools, args.rounds, args.loop, args.array)
    heads = ("", *(f"{name} {version}" for name, version in versions.items()))
    rows = (
        (what.format(**vars(args)), *(_cell(medians[row].get(name), python) for name in versions))
        for row, what in ROWS.items()
    )
    load = " to ".join(f"{each:.0f}" for each in (began[0], os.getloadavg()[0]))
    head = (
        f"By `make bench-peers` on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, load "
        f"{load}. Medians of {args.rounds} rounds, loops and arrays once; in brackets multiples "
        f"of `python -c pass`, which took {python * 1e3:.0f} ms."
    )
    missing = [f"- {name}: not measured: {why}." for name, why in left_out.items()]
    missing.append("- pueue: not measured: neither Debian nor PyPI has it.")
    return "\n".join([head, "", *markdown.table(heads, rows), "", *missing])


def _cell(seconds: float | None, python: float) -> str:
    if seconds is None:
        return "–"
    shown = f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
    return f"{shown} ({float(f'{seconds / python:.2g}'):g})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--loop", type=int, default=300)
    parser.add_argument("--array", type=int, default=1000)
    parser.add_argument("--tools", type=Path, help="the folder of the other tools, which stays")
    args, began = parser.parse_args(), os.getloadavg()
    given = args.tools is not None
    args.tools = (args.tools or Path("/tmp", f"radrm-peers-{os.getpid()}")).absolute()
    try:
        get_tools(args.tools)
        print(table(args, began))
    finally:
        if not given:
            shutil.rmtree(args.tools, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
