"""How near tracing a training step comes to measured GPU memory, as a table.

    python -m benchmarks.estimates.trace_accuracy ../shared/data/jobs --python PYTHON
    python -m benchmarks.estimates.trace_accuracy ../shared/data/timm/train_memory_a100.csv \
        --python PYTHON --sample 60 --seed 1

`--python` is one with PyTorch (and torchvision, timm, transformers for the models). The
first form reads published job files, one for each model and batch size; the second a CSV of
timm models (model, batch_size, actual_mib, faketensor_mib, valid). `--keep DIR` keeps the
tracer's documents and uses those that are there. Rows are named fitted or held out:
`radrm/estimators/memory.py` and `overheads.py` have figures fitted on the former.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from radrm.errors import RadrmError
from radrm.estimators.memory import context_mib
from radrm.estimators.traces import Traced
from radrm.jobfile.radfile import read_job_file
from tests.paths import REPOSITORY

LIMIT_S = 300
DEVICE = "NVIDIA A100-SXM4-40GB"


@dataclass(frozen=True)
class Case:
    """One measured job."""

    name: str
    factory: str
    batch_size: int
    measured_mib: float
    faketensor_mib: float | None
    fitted: bool
    options: tuple[str, ...] = ()
    doubtful: bool = False
    """Whether the row may be another model's, or of a run that broke off."""


@dataclass(frozen=True)
class Outcome:
    case: Case
    traced: Traced | None
    error: str = ""

    @property
    def estimate_mib(self) -> float:
        assert self.traced is not None
        return self.traced.reserved_mib + context_mib(DEVICE)

    @property
    def excluded(self) -> str:
        """Why this row cannot be compared; empty where it can."""
        if self.traced is None:
            return self.error
        if not self.case.doubtful:
            return ""
        if self.case.measured_mib < 0.95 * self.traced.need_mib + context_mib(DEVICE):
            return "measured less than is alive at one time: the run had not got so far"
        ours, theirs = self.traced.faketensor_mib, self.case.faketensor_mib
        if ours and theirs and theirs < 1e6 and not 0.8 < ours / theirs < 1.25:
            return "its FakeTensor figure is another model's: other sizes than ours"
        return ""

    @property
    def relative(self) -> float:
        return self.estimate_mib / self.case.measured_mib - 1


# ------------------------------------------------------------------ published jobs

_FACTORIES = {
    "resnet": "vision:resnet50",
    "vgg": "vision:vgg16",
    "Inception": "vision:inception",
    "Xception": "vision:xception",
    "mobilenet": "vision:mobilenet_v2",
    "efficientNet": "vision:efficientnet_b0",
    "resnet18_cifar100": "cifar:resnet18",
    "resnet34_cifar100": "cifar:resnet34",
    "efficientNet_cifar100": "cifar:efficientnet_b0",
    "mobilenet_cifar100": "cifar:mobilenet",
    "mnist_train": "vision:mnist_cnn",
    "BERT_base": "text:bert_base",
    "BERT_large": "text:bert_large",
    "gpt2_large": "text:gpt2_large",
    "xlnet_base_cased": "text:xlnet_base",
    "xlnet_large_cased": "text:xlnet_large",
}
_EACH_GPU = {"xlnet_base_cased": 8, "xlnet_large_cased": 4}
"""Batch sizes that the thesis' Table 6.2 gives; they fit the measurements as each GPU's."""
FITTED_MODELS = frozenset(
    {"resnet", "vgg", "mobilenet", "resnet18_cifar100", "efficientNet_cifar100", "BERT_base"}
)


def published(folder: Path) -> Iterator[Case]:
    """One case for each model, batch size and measurement."""
    seen = set()
    for file in sorted(folder.glob("*.rad")):
        job = read_job_file(file.read_bytes(), file.name, {})
        model = max((m for m in _FACTORIES if file.stem.startswith(m)), key=len, default=None)
        batch_size, gpus = job.options.batch_size, job.options.gpus or 1
        if model is None or job.measured is None or batch_size is None:
            continue
        if (model, batch_size) in seen:
            continue
        seen.add((model, batch_size))
        batch_size = _EACH_GPU[model] * gpus if model in _EACH_GPU else batch_size
        yield Case(
            name=f"{model} x{batch_size}" + (f" on {gpus} GPUs" if gpus > 1 else ""),
            factory=f"benchmarks.models.{_FACTORIES[model]}",
            batch_size=batch_size,
            measured_mib=job.measured,
            faketensor_mib=job.faketensor,
            fitted=model in FITTED_MODELS,
            options=("--gpus", str(gpus), "--parallel", "dp") if gpus > 1 else (),
        )


# ------------------------------------------------------------------ timm


def fitted_timm(name: str) -> bool:
    """Half of the models, by a sum over their names; the other half is held out."""
    return sum(name.encode()) % 2 == 0


def timm(file: Path, sample: int | None, seed: int) -> Iterator[Case]:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["valid"] == "1"]
    if sample is not None:
        rows = random.Random(seed).sample(rows, min(sample, len(rows)))
    for row in rows:
        yield Case(
            name=f"{row['model']} x{row['batch_size']}",
            factory=f"benchmarks.models.timm_models:{row['model'].replace('.', '__dot__')}",
            batch_size=int(row["batch_size"]),
            measured_mib=float(row["actual_mib"]),
            faketensor_mib=float(row["faketensor_mib"]) if row["faketensor_mib"] else None,
            fitted=fitted_timm(row["model"]),
            options=("--optimizer", "nesterov"),
            doubtful=True,
        )


# ------------------------------------------------------------------ tracing


def document_of(case: Case, folder: Path) -> Path:
    words = [case.factory.rpartition(".")[2], f"x{case.batch_size}", *case.options]
    return folder / ("_".join(words).replace(":", ".") + ".json")


def trace(case: Case, python: str, folder: Path) -> Outcome:
    file = document_of(case, folder)
    if not file.exists():
        command = [
            python,
            str(REPOSITORY / "radrm" / "tracer"),
            case.factory,
            "--output",
            str(file),
        ]
        command += ["--batch-size", str(case.batch_size), *case.options]
        try:
            done = subprocess.run(
                command,
                cwd=REPOSITORY,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(case, None, f"took more than {LIMIT_S} s")
        if not file.exists():
            return Outcome(case, None, f"ended with {done.returncode}: {done.stderr[-200:]}")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        # TIMM's own script sets it.
        document = {**document, "benchmark": "timm" in case.factory}
        return Outcome(case, Traced.from_events(document, DEVICE))
    except (RadrmError, ValueError) as error:
        return Outcome(case, None, str(error))


# ------------------------------------------------------------------ the table


def report(outcomes: Iterable[Outcome], worst: int) -> str:
    outcomes = list(outcomes)
    done = [outcome for outcome in outcomes if not outcome.excluded]
    lines = [f"{'':44} {'measured':>9} {'reserved':>9} {'need':>9} {'error':>8}  seconds"]
    for outcome in sorted(done, key=lambda o: -abs(o.relative))[:worst] if worst else done:
        assert outcome.traced is not None
        lines.append(
            f"{outcome.case.name:36} {'fitted' if outcome.case.fitted else 'held out':>8} "
            f"{outcome.case.measured_mib:8.0f} {outcome.estimate_mib:9.0f} "
            f"{outcome.traced.need_mib:9.0f} {outcome.relative:8.1%} {outcome.traced.seconds:7.1f}"
        )
    for outcome in outcomes:
        if outcome.excluded:
            lines.append(f"{outcome.case.name:36} left out: {outcome.excluded}")
    one = [o for o in done if "--gpus" not in o.case.options]
    lines.append(_faketensor([o for o in outcomes if o.traced is not None]))
    lines.append("")
    lines.append(_summary("all", done))
    lines.append(_summary("one GPU", one))
    lines.append(_summary("one GPU, fitted", [o for o in one if o.case.fitted]))
    lines.append(_summary("one GPU, held out", [o for o in one if not o.case.fitted]))
    return "\n".join(lines)


def _faketensor(outcomes: list[Outcome]) -> str:
    """How near our FakeTensor figures come to those published beside the measurements."""
    pairs = [
        abs(o.traced.faketensor_mib / o.case.faketensor_mib - 1)
        for o in outcomes
        if o.traced is not None and o.traced.faketensor_mib
        and o.case.faketensor_mib is not None and o.case.faketensor_mib < 1e6
    ]  # fmt: skip
    if not pairs:
        return "FakeTensor: none to compare"
    near = sum(pair < 0.001 for pair in pairs)
    return f"FakeTensor: {near} of {len(pairs)} within 0.1 %, median {statistics.median(pairs):.2%}"


def _summary(name: str, outcomes: list[Outcome]) -> str:
    if not outcomes:
        return f"{name}: none"
    errors = [abs(outcome.relative) for outcome in outcomes]
    differences = [outcome.estimate_mib - outcome.case.measured_mib for outcome in outcomes]
    over = [difference for difference in differences if difference > 0]
    seconds = [outcome.traced.seconds for outcome in outcomes if outcome.traced is not None]
    return (
        f"{name}: {len(outcomes)} jobs, MAPE {statistics.mean(errors):.1%}, "
        f"median {statistics.median(errors):.1%}, "
        f"under {sum(d < 0 for d in differences)}, worst under {min(differences):+.0f} MiB, "
        f"worst over {max(differences):+.0f} MiB, "
        f"mean over {statistics.mean(over) if over else 0:.0f} MiB, "
        f"{statistics.mean(seconds):.1f} s a trace, at most {max(seconds):.1f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("measured", type=Path, help="a folder of job files, or timm's CSV")
    parser.add_argument("--python", default=sys.executable, help="one with PyTorch")
    parser.add_argument("--sample", type=int, help="so many rows of the CSV")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the tracer's documents")
    parser.add_argument("--jobs", type=int, default=1, help="traces at a time")
    parser.add_argument("--worst", type=int, default=0, help="show only so many rows")
    asked = parser.parse_args()
    if asked.measured.is_dir():
        cases = list(published(asked.measured))
    else:
        cases = list(timm(asked.measured, asked.sample, asked.seed))
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(asked.jobs) as pool:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        outcomes = list(pool.map(lambda case: trace(case, asked.python, folder), cases))
    print(report(outcomes, asked.worst))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
