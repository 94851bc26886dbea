"""The demo's jobs: training runs of RAD-RM's evaluation, and their job files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Model:
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
