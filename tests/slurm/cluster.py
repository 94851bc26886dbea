"""A real Slurm of three nodes on this host, in a folder of its own, for tests.

No service of the system is used: munged, slurmctld and three slurmd are started here, and ended by
their process ids. `configuration.py` has their files, `__init__.py` says what this Slurm was seen
to do.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.daemon.harness import DaemonHome
from tests.ports import free_ports
from tests.slurm.configuration import ACCEPT, NODES, gres_conf, slurm_conf
from tests.waiting import PATIENCE_S, wait_until

MISSING = "Slurm is not installed (Debian: slurm-wlm slurm-wlm-basic-plugins munge)"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue")
OTHER = os.environ.get("RADRM_SLURM_TEST_PATH", "")
"""The folders of another Slurm than Debian's, as `/opt/slurm/sbin:/opt/slurm/bin`."""


def with_other(path: str) -> str:
    """Return PATH with the folders of the other Slurm first."""
    return f"{OTHER}:{path}" if OTHER else path


SYSTEM_PATH = with_other("/usr/sbin:/sbin:/usr/bin:/bin")
"""Where Debian puts them. No folder of radrm's own `sbatch` is on it."""

UNFINISHED = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED")


def installed() -> bool:
    """Whether a cluster can run here: all programs, and root to start them."""
    return os.geteuid() == 0 and all(shutil.which(name, path=SYSTEM_PATH) for name in PROGRAMS)


def program(name: str) -> str:
    path = shutil.which(name, path=SYSTEM_PATH)
    assert path is not None, f"{name} is not installed"
    return path


class Cluster:
    """Three nodes g1, g2, g3, two partitions (`shared`, the default, and `whole`), one controller.

    The folder can be read by all users, as jobs of other users run in it (`work`).
    """

    def __init__(self, more: str = "", lua: str = ACCEPT, nodes: Sequence[str] = NODES) -> None:
        self.nodes = nodes
        # Not a folder of pytest's: other users may not enter those, and a socket's name is short.
        self.folder = Path(tempfile.mkdtemp(prefix="radrm-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.more = more
        self.lua = self.folder / "job_submit.lua"
        self.lua.write_text(lua)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.work.chmod(0o1777)
        self.home = f"{self.folder}/radrm/%n/home"
        """RADRM_HOME of the nodes' daemons; %n is the node's name, as in `[slurm] home`."""
        self.env = {
            **{
                k: v
                for k, v in os.environ.items()
                if not k.startswith(("RADRM_", "SLURM", "SBATCH", "SQUEUE"))
            },
            "PATH": with_other(os.environ["PATH"]),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "LC_ALL": "C.UTF-8",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.daemons: dict[str, DaemonHome] = {}

    # ------------------------------------------------------------- start and end

    def start(self) -> None:
        """Start all, and wait until each node takes jobs."""
        controller, *ports = free_ports(1 + len(self.nodes))
        conf = slurm_conf(
            self.folder, socket.gethostname(), controller, ports, self.more, self.nodes
        )
        self.write_conf(conf)
        for name in ("state", "munge", "spool", "radrm"):
            (self.folder / name).mkdir()
        self._start_munged()
        self.start_slurmctld()
        for node in self.nodes:
            self.start_slurmd(node)
        wait_until(self._answers, f"the nodes; Slurm said:\n{self.said()}")

    def write_conf(self, conf: str) -> None:
        """Write what Slurm begins with."""
        (self.folder / "slurm.conf").write_text(conf)
        (self.folder / "gres.conf").write_text(gres_conf())

    def _answers(self) -> bool:
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise AssertionError(f"{name} ended at once; Slurm said:\n{self.said()}")
        states = self.query("sinfo", "--noheader", "--Node", "--partition=whole", "-o", "%N %t")
        return sorted(states.split("\n")) == ["", *sorted(f"{node} idle" for node in self.nodes)]

    def _start_munged(self) -> None:
        folder = self.folder / "munge"
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        places = [f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")]
        self._start("munged", "--foreground", f"--socket={folder / 'socket'}", *places)
        wait_until((folder / "socket").exists, "munged's socket")

    def start_slurmctld(self) -> None:
        self._start("slurmctld", "-D")

    def stop_slurmctld(self) -> None:
        self._kill("slurmctld", signal.SIGTERM)

    def start_slurmd(self, node: str) -> None:
        self._start("slurmd", "-D", "-N", node, name=node, SLURMD_NODENAME=node)

    def kill_slurmd(self, node: str) -> None:
        """End the daemon alone: its steps run on."""
        self._kill(node)

    def kill_node(self, node: str) -> None:
        """End the node: its slurmd, all steps with their processes, and its radrm daemon."""
        self._kill(node)
        self._end_steps(node)
        if (daemon := self.daemons.get(node)) is not None:
            daemon.kill()

    def _start(
        self, program_name: str, *words: str, name: str | None = None, **environment: str
    ) -> None:
        name = name or program_name
        with (self.folder / f"{name}.out").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [program(program_name), *words],
                env={**self.env, **environment, "PATH": SYSTEM_PATH},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _kill(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(PATIENCE_S)

    def said(self) -> str:
        """The ends of all logs."""
        logs = sorted((*self.folder.glob("*.log"), *self.folder.glob("*.out")))
        return "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    def stop(self) -> None:
        """End jobs, daemons and all of Slurm, and remove the folder."""
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            for name in tuple(self.processes):
                stack.callback(self._kill, name)
            for node in self.nodes:
                stack.callback(self._end_steps, node)
            for daemon in self.daemons.values():
                stack.callback(daemon.close)

    def _end_steps(self, node: str) -> None:
        for pid in self.step_processes(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def step_processes(self, node: str) -> list[int]:
        """The pids of the node's steps: each slurmstepd, which would report an end, comes first."""
        marks = {
            f"SLURM_CONF={self.env['SLURM_CONF']}".encode(),
            f"SLURMD_NODENAME={node}".encode(),
        }
        slurmd = self.processes.get(node)
        found = []
        for place in Path("/proc").iterdir():
            with suppress(OSError):
                if not place.name.isdigit() or (slurmd and int(place.name) == slurmd.pid):
                    continue
                if marks <= set((place / "environ").read_bytes().split(b"\0")):
                    steps = (place / "comm").read_text().startswith("slurmstepd")
                    found.append((not steps, int(place.name)))
        return [pid for _, pid in sorted(found)]

    # ------------------------------------------------------------- commands

    def run(
        self, name: str, *words: str, user: str | None = None, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One of Slurm's commands, as root or as another user."""
        return subprocess.run(
            [program(name), *words],
            env=self.env,
            cwd=self.work,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            user=user,
            group=None if user is None else pwd.getpwnam(user).pw_gid,
            extra_groups=None if user is None else [],
            check=False,
        )

    def query(self, name: str, *words: str) -> str:
        return self.run(name, *words).stdout

    def sbatch(self, script: str, *words: str, user: str | None = None) -> int:
        """Submit a script; its id. Output is `work/ID.out`. Raises AssertionError if refused."""
        done = self.submit(script, *words, user=user)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.partition(";")[0])

    def submit(
        self, script: str, *words: str, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same, for one that may be refused. Without an interpreter it is a shell's."""
        script = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        output = f"--output={self.work}/%A.out"
        return self.run("sbatch", "--parsable", output, *words, user=user, text=script)

    def scontrol(self, *words: str, user: str | None = None) -> str:
        """What scontrol prints. Raises AssertionError with what it refuses."""
        done = self.run("scontrol", *words, user=user)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def job(self, job: int) -> dict[str, str]:
        """What `scontrol show job` says; values with spaces are cut at the first one."""
        words = self.scontrol("-o", "show", "job", str(job)).split()
        return dict(word.partition("=")[::2] for word in words if "=" in word)

    def wait_state(self, job: int, *states: str, patience_s: float = PATIENCE_S) -> dict[str, str]:
        def reached() -> dict[str, str] | None:
            document = self.job(job)
            return document if document["JobState"] in states else None

        found = wait_until(reached, f"job {job} to be {' or '.join(states)}", patience_s)
        assert found is not None
        return found

    def wait(self, job: int, patience_s: float = PATIENCE_S) -> tuple[str, str]:
        """Wait for the end; the state, and the exit code as `code:signal`."""

        def ended() -> dict[str, str] | None:
            document = self.job(job)
            return None if document["JobState"] in UNFINISHED else document

        document = wait_until(ended, f"the end of job {job}", patience_s)
        return document["JobState"], document["ExitCode"]

    def output(self, job: int) -> str:
        return (self.work / f"{job}.out").read_text()

    def completions(self) -> list[dict[str, str]]:
        """The lines of the completion log (jobcomp/filetxt)."""
        place = self.folder / "jobcomp.log"
        lines = place.read_text().splitlines() if place.exists() else []
        return [
            dict(word.partition("=")[::2] for word in line.split() if "=" in word) for line in lines
        ]

    # ------------------------------------------------------------- radrm

    def daemon(
        self,
        node: str,
        settings: Sequence[str] = (),
        gpus: str = "sim:2xA100-40GB",
        scale: float = 100.0,
        python_path: Path | None = None,
    ) -> DaemonHome:
        """Start the radrm daemon of a node, with simulated GPUs; it ends with the cluster.

        `%n` in a setting is the node's name. `python_path` has modules for it alone.
        """
        place = DaemonHome(self.folder / "radrm" / node, gpus, scale)
        place.settings = [setting.replace("%n", node) for setting in settings]
        place.environment["SLURM_CONF"] = self.env["SLURM_CONF"]
        place.environment["PATH"] = with_other(place.environment["PATH"])
        if python_path is not None:
            place.environment["PYTHONPATH"] += f":{python_path}"
        place.start()
        self.daemons[node] = place
        return place
