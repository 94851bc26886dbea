"""Three NumPy jobs in the published proportions, under one CPU quota of this server.

Theory of operation
-------------------
The jobs run on one CPU, in a control group (version 1) of quota one, each in a group of its own
below it. The planner is the daemon's, driven through `Scheduler.step`; its shares are written as
the daemon writes them. Time is the CPU time that all of them got together: so other work on a busy
server does not count, and equal shares end the last job when all work is done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from benchmarks.flowcon.jobs import change
from radrm.config import Config
from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import (
    Exit,
    HostUse,
    Instant,
    Job,
    JobSpec,
    Needs,
    Node,
    Progress,
    Role,
    Share,
)
from radrm.core.scheduler import Scheduler
from radrm.core.settings import CoreSettings
from radrm.wiring import make_rules

_WORKS = (("VAE", 0.0, 259.7, 6.0), ("MNIST-P", 40.0, 106.1, 5.0), ("MNIST-TF", 80.0, 28.2, 4.0))
_PERIOD_US = 20_000
_LOOK_S = 0.05

_JOB = """
import sys, time
import numpy
work_s, loss_k = float(sys.argv[1]), float(sys.argv[2])
rng = numpy.random.default_rng(0)
inputs, weights = rng.normal(size=(256, 256)) / 16, numpy.ones(256)
before = told = time.process_time()
began = before
while True:
    for _ in range(20):
        gradient = inputs.T @ (inputs @ weights) / 4 + weights
    now = time.process_time()
    weights *= max(0.0, 1 - loss_k * (now - before) / work_s / 2)  # a step along the gradient
    before = now
    if now - told > work_s / 200:
        told = now
        print((now - began) / work_s, float(weights @ weights) / 256, flush=True)
    if now - began >= work_s:
        break
"""


@dataclass(slots=True)
class _Live:
    process: subprocess.Popen[bytes]
    group: Path
    begun_s: float
    serial: int
    used_s: float = 0.0
    said: bytes = b""


@dataclass(slots=True)
class _Server:
    """The control groups, the jobs that run, and the clock."""

    cpu: Path
    account: Path
    scale: float
    scheduler: Scheduler
    live: dict[int, _Live] = field(default_factory=dict)
    ended_s: dict[int, float] = field(default_factory=dict)
    now_s: float = 0.0
    wake_s: float | None = None

    @property
    def at(self) -> Instant:
        return Instant(self.now_s, self.now_s)

    def step(self, event: ev.Event) -> None:
        decision = self.scheduler.step(event)
        if decision.log_lines:
            raise SystemExit(decision.log_lines[0])
        if decision.wake_at is not None:
            self.wake_s = decision.wake_at
        for action in decision.actions:
            if isinstance(action, act.Launch):
                self.launch(action)
            elif isinstance(action, act.ApplyShares):
                self.apply(action.job_id, action.shares[0])
                self.step(
                    ev.SharesApplied(
                        at=self.at,
                        job_id=action.job_id,
                        serial=action.serial,
                        shares=action.shares,
                    )
                )

    def launch(self, action: act.Launch) -> None:
        _, _, work_s, loss_k = _WORKS[action.job_id - 1]
        name = f"job{action.job_id}"
        for folder in (self.cpu / name, self.account / name):
            folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-c", _JOB, str(work_s * self.scale), str(loss_k)],
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        for folder in (self.cpu / name, self.account / name):
            (folder / "cgroup.procs").write_text(str(process.pid))
        self.live[action.job_id] = _Live(process, self.cpu / name, self.now_s, action.serial)
        self.step(ev.AttemptStarted(at=self.at, job_id=action.job_id, serial=action.serial))

    def apply(self, job_id: int, share: Share) -> None:
        found = self.live[job_id]
        weight = 1.0 if share.cpu_weight is None else share.cpu_weight
        (found.group / "cpu.shares").write_text(str(max(2, round(1024 * weight))))

    def look(self) -> None:
        """Move the clock by what the jobs have used; take in reports and ends."""
        for job_id, found in self.live.items():
            text = (self.account / f"job{job_id}" / "cpuacct.usage").read_text()
            used_s = int(text) / 1e9
            self.now_s += used_s - found.used_s
            found.used_s = used_s
        for job_id, found in list(self.live.items()):
            assert found.process.stdout is not None
            try:
                found.said = found.said + os.read(found.process.stdout.fileno(), 65536)
            except BlockingIOError:
                pass  # it has said nothing new
            *lines, found.said = found.said.split(b"\n")
            if lines and len(lines[-1].split()) == 2:
                done, loss = map(float, lines[-1].split())
                progress = Progress(self.at, loss=loss, work_done=min(1.0, done))
                use = HostUse(at=self.at, cpu_s=found.used_s)
                self.step(ev.HostUsed(at=self.at, uses=((job_id, found.serial, use),)))
                self.step(
                    ev.ProgressReported(
                        at=self.at, job_id=job_id, serial=found.serial, progress=progress
                    )
                )
            if found.process.poll() is not None:
                del self.live[job_id]
                self.ended_s[job_id] = self.now_s - _WORKS[job_id - 1][1] * self.scale
                self.step(
                    ev.AttemptEnded(
                        at=self.at, job_id=job_id, serial=found.serial, exits=(Exit(code=0),)
                    )
                )

    def close(self) -> None:
        for found in self.live.values():
            found.process.kill()
            found.process.wait()
        for root in (self.cpu, self.account):
            for folder in [*root.glob("job*"), root]:
                folder.rmdir()


def _play(scale: float, planners: dict[str, dict[str, object]]) -> list[float]:
    """Return the completion times of the three jobs, in units of the published ones."""
    config = Config(planner=("strict", *planners), planners=planners)
    name = f"radrm-flowcon-{os.getpid()}"
    roots = [Path("/sys/fs/cgroup") / each / name for each in ("cpu", "cpuacct")]
    for root in roots:
        root.mkdir()
    (roots[0] / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
    (roots[0] / "cpu.cfs_quota_us").write_text(str(_PERIOD_US))
    server = _Server(roots[0], roots[1], scale, Scheduler(make_rules(config), CoreSettings()))
    try:
        server.step(ev.NodesSeen(at=server.at, nodes=(Node(cpus=1.0),)))
        server.step(ev.DevicesSeen(at=server.at, devices=()))
        waiting = list(enumerate(_WORKS, 1))
        while waiting or server.live:
            if waiting and waiting[0][1][1] * scale <= server.now_s:
                job_id, (job_name, _, _, _) = waiting.pop(0)
                spec = JobSpec(job_name, "user", 0, roles=(Role(needs=Needs(gpus=0)),))
                job = Job(job_id, str(job_id), spec, server.at)
                server.step(ev.JobSubmitted(at=server.at, job=job))
            time.sleep(_LOOK_S)
            server.look()
            if server.wake_s is not None and server.wake_s <= server.now_s:
                server.wake_s = None
                server.step(ev.Tick(at=server.at))
    finally:
        server.close()
    return [server.ended_s[at] / scale for at in (1, 2, 3)]


def run(scale: float) -> None:
    """Run the jobs with equal shares, by growth and by the letter, and print what they took."""
    settings = {"alpha": 0.05 / scale, "interval_s": max(1.0, 20.0 * scale)}
    equal = _play(scale, {})
    print(
        "equal shares  ", " ".join(f"{n[0]} {s:.1f} s" for n, s in zip(_WORKS, equal, strict=True))
    )
    for name, measure in (("growth", "relative"), ("letter", "paper")):
        found = _play(scale, {"flowcon": {**settings, "measure": measure}})
        changes = [change(a, b) for a, b in zip(equal, found, strict=True)]
        print(
            f"{name:14}",
            " ".join(f"{n[0]} {s:.1f} s" for n, s in zip(_WORKS, found, strict=True)),
            " ".join(f"{each:+.1f} %" for each in changes),
            f"mean {change(fmean(equal), fmean(found)):+.1f} %",
            flush=True,
        )
