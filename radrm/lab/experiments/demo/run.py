"""The jobs of the demo, and one of its two servers while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from radrm.client.text import FINAL, Document
from radrm.errors import plain
from radrm.lab.experiments.demo.numbers import Figures, Meter, figures
from radrm.lab.experiments.demo.server import DemoServer


class Model(Struct, frozen=True):
    """A training job: peak MiB per GPU, SM activity alone (0..1), simulated seconds alone.

    `declared_mib` is the memory that its job file declares, if that is wrong.
    """

    name: str
    memory_mib: int
    smact: float
    seconds: float
    batch_size: int = 32
    family: str = "cnn"
    gpus: int = 1
    declared_mib: int | None = None

    def job_file(self) -> str:
        declared = self.memory_mib if self.declared_mib is None else self.declared_mib
        return (
            "#!/usr/bin/env bash\n"
            f"#RAD --gpus={self.gpus} --gpu-memory={declared} --smact={self.smact}\n"
            f"exec radrm-simjob --gpu-memory {self.memory_mib} --smact {self.smact} "
            f"--seconds {self.seconds:g} --ramp 30 --gpus {self.gpus} "
            f"--family {self.family} --batch-size {self.batch_size}\n"
        )


# Memory (but for the liar), SM activity and relative lengths: RAD-RM thesis, Table 6.2.
MODELS = (
    Model("inception", 19018, 0.62, 900, 128),
    Model("xlnet-large", 14546, 0.60, 1000, 8, "transformer", gpus=2),
    Model("efficientnet", 7844, 0.45, 700, 64),
    Model("vgg16", 34000, 0.45, 800, 128, "vgg", declared_mib=6000),
    Model("mobilenet", 4544, 0.34, 700, 32),
    Model("bert-base", 20774, 0.91, 400, 32, "transformer"),
    Model("resnet50", 5262, 0.62, 700, 32),
    Model("resnet18-cifar100", 1960, 0.30, 500, 32, "light"),
    Model("mnist", 1776, 0.07, 120, 32, "tiny"),
    Model("resnet34-cifar100", 2190, 0.35, 500, 128, "light"),
    Model("xception", 11520, 0.60, 700, 64),
    Model("mobilenet-cifar100", 1824, 0.20, 400, 128, "light"),
)
LIAR = "vgg16"
"""The model that declares far too little memory."""


def write_job_files(folder: Path) -> list[str]:
    """Write a job file for each model. Returns their names, in the order of submission."""
    names = []
    for model in MODELS:
        names.append(f"{model.name}.rad")
        (folder / names[-1]).write_text(model.job_file())
    return names


GPUS = "sim:4xA100-40GB"
TIME_SCALE = 60.0
LIMIT_S = 75.0
"""Real seconds from the command's start after which the demo stops waiting."""
_REFRESH_S = 0.25


class Scene(Struct, frozen=True):
    """One server at one moment of its own clock."""

    title: str
    jobs: Sequence[Document]
    devices: Sequence[Document]
    now: float

    def where(self, job: Document) -> str:
        index = {device["uuid"]: str(device["index"]) for device in self.devices}
        return ",".join(index.get(uuid, "?") for uuid in job["devices"])


class Run(Struct):
    """One server, and what it has shown so far."""

    title: str
    server: DemoServer
    meter: Meter = field(default_factory=Meter)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    sharers: int = 0
    """The most jobs seen on one GPU at once."""

    @property
    def over(self) -> bool:
        return len(self.jobs) == len(MODELS) and all(j["state"] in FINAL for j in self.jobs)

    def look(self) -> Scene:
        """Ask the server for its present state. Readings after its last job do not count."""
        counts = not self.over
        self.jobs = self.server.ask("status", all=True)
        devices = self.server.ask("gpus")
        now = self.server.ask("ping")["now"]
        if counts:
            self.meter.add(now, devices)
            self.sharers = max(self.sharers, *(len(device["jobs"]) for device in devices))
        return Scene(self.title, self.jobs, devices, now)

    def figures(self) -> Figures:
        numbers = [str(job["id"]) for job in self.jobs]
        return figures([self.server.ask("explain", jobs=[n]) for n in numbers], self.meter)


def demo_server(folder: str, name: str, policy: str) -> DemoServer:
    """A server with MPS and this policy, not started yet."""
    settings = (f"policy={policy}", "mps.enabled=true")
    return DemoServer(Path(folder) / name, GPUS, TIME_SCALE, settings)


def watch(
    runs: Sequence[Run], began_s: float, look: Callable[[list[Scene], float], object]
) -> None:
    """Call `look` repeatedly with all servers and the seconds since `began_s`, until all jobs
    have ended or the time is up."""
    while True:
        scenes = [run.look() for run in runs]
        seconds = time.monotonic() - began_s
        look(scenes, seconds)
        if all(run.over for run in runs) or seconds > LIMIT_S:
            return
        time.sleep(_REFRESH_S)


def recovered(sharing: Run) -> list[Document]:
    """The jobs that ran out of GPU memory and then completed."""
    return [job for job in sharing.jobs if job["oom_count"] and job["state"] == "COMPLETED"]


def faults(sharing: Run, alone: Run) -> list[str]:
    """The failures of the demo, a line each."""
    found = []
    for run in (sharing, alone):
        for job in run.jobs:
            if job["state"] != "COMPLETED" and (run is sharing or job["state"] in FINAL):
                line = f"{run.title}: job {job['id']} {job['name']} is {job['state']}"
                found.append(plain(f"{line}: {job['reason'] or 'it did not end in time'}"))
        if len(run.jobs) != len(MODELS):
            found.append(f"{run.title}: {len(run.jobs)} of {len(MODELS)} jobs were accepted")
    if LIAR not in [job["name"] for job in recovered(sharing)]:
        found.append(f"sharing: {LIAR} did not crash and recover")
    if sharing.sharers < 2:
        found.append("sharing: no two jobs shared a GPU")
    if alone.sharers > 1:
        found.append("exclusive: two jobs shared a GPU")
    return found
