"""How near `summary` comes to measured memory, fitted and held-out data apart.

    python -m benchmarks.estimates.summary_accuracy --jobs FOLDER [--mlps FILE.csv] [--tokens 512]
    python -m benchmarks.estimates.timm_tables MEASURED.csv TABLES
    python -m benchmarks.estimates.summary_accuracy --jobs FOLDER \
        --timm MEASURED.csv --tables TABLES

FOLDER holds prototype job files and the summaries that they name; the CSV has GPUMemNet's
columns (`Activations-Params`, `Batch Size`, `Max GPU Memory (MiB)`).
"""

from __future__ import annotations

import argparse
import ast
import csv
import dataclasses
import re
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from radrm.core.records import JobSpec
from radrm.estimators.interface import Description
from radrm.estimators.summaries.text import BadSummary
from radrm.estimators.summary import Summary
from radrm.estimators.symbolic import operations
from radrm.jobfile.radfile import read_job_file
from radrm.structs import replace
from radrm.wiring import describe

SPATIAL = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
CUDNN_MIB = (200.0, 240.0, 260.0, 280.0, 300.0, 340.0)
WRONG = {
    "mobilenet_cifar100": "its summary is EfficientNet's, byte for byte",
    "mnist_train": "its summary is of another model than the one that ran",
}
PUBLISHED = re.compile("resnet|res2net|resnext|inception|xception|efficientnet|mobilenet|vgg")
BATCH = {"xlnet_large_cased_2": 4}
"""What ran, where the job file says otherwise (thesis, table 6.2)."""


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    """The architecture: what is held out together."""
    job: Description
    measured_mib: float


@dataclass(frozen=True)
class Outcome:
    case: Case
    estimate_mib: float
    ms: float

    @property
    def off(self) -> float:
        return (self.estimate_mib - self.case.measured_mib) / self.case.measured_mib


def published(folder: Path, tokens: int) -> Iterator[Case]:
    """The measured jobs of a folder, runs of the same thing once."""
    summaries = {path.name.lower(): path for path in folder.glob("*.model")}
    seen = set()
    for path in sorted(folder.glob("*.rad")):
        job_file = read_job_file(path.read_bytes(), path.name, {})
        named = (job_file.options.model_summary or "").lower()
        if named not in summaries:
            continue
        job = describe(dataclasses.replace(job_file, summary=summaries[named].read_text()))
        job = replace(
            job,
            sequence_length=job.sequence_length or tokens,
            batch_size=BATCH.get(path.stem, job.batch_size),
        )
        measured = job.published.get("measured")
        key = (named, job.batch_size, measured)
        if measured is not None and key not in seen:
            seen.add(key)
            group = re.sub(r"(_(20|50)e)?(_?\d+)?$", "", path.stem)
            yield Case(path.stem, group, job, measured)


def perceptrons(file: Path) -> Iterator[Case]:
    kinds = {"linear": "Linear", "batch_normalization": "BatchNorm1d", "dropout": "Dropout"}
    spec = JobSpec(name="mlp", user="bench", uid=0)
    with file.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines)):
            layers = ast.literal_eval(row["Activations-Params"])
            rows = [
                f"{kinds.get(kind, kind)}-{place} [-1, {width}] {count}"
                for place, (kind, width, count) in enumerate(layers, 1)
            ]
            total = sum(count for _, _, count in layers)
            head, rule = "Layer (type) Output Shape Param #", "=" * 60
            text = "\n".join([head, rule, *rows, rule, f"Total params: {total}", ""])
            job = Description(spec=spec, summary=text, batch_size=int(row["Batch Size"]))
            yield Case(str(number), "mlp", job, float(row["Max GPU Memory (MiB)"]))


def timm_models(measured: Path, tables: Path) -> Iterator[Case]:
    """The convolutional ones that have a table; trained by TIMM's script, with SGD."""
    spec = JobSpec(name="timm", user="bench", uid=0)
    with measured.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            table = tables / f"{row['model']}.model"
            if row["valid"] != "1" or not table.is_file():
                continue
            text = table.read_text(encoding="utf-8")
            if "Conv2d-1 " not in text or re.search("(?i)att(ention|n)|mixer|mlp-|window", text):
                continue
            batch = int(row["batch_size"])
            job = Description(spec=spec, summary=text, batch_size=batch, optimizer="sgd")
            yield Case(f"{row['model']}@{batch}", row["model"], job, float(row["actual_mib"]))


def outcomes(cases: Iterable[Case], rule: Summary) -> list[Outcome]:
    found = []
    for case in cases:
        began = time.perf_counter()
        try:
            told = rule.estimate(case.job)
        except BadSummary:
            continue
        ms = (time.perf_counter() - began) * 1e3
        if told:
            found.append(Outcome(case, told[0].value, ms))
    return found


def error(found: Sequence[Outcome]) -> float:
    return statistics.mean(abs(each.off) for each in found)


def held_out(cases: Sequence[Case]) -> list[Outcome]:
    """Each architecture by constants fitted on the others alone."""
    shipped = operations.SPATIAL_WORKSPACE
    tried: dict[tuple[float, float], list[Outcome]] = {}
    try:
        for times in SPATIAL:
            operations.SPATIAL_WORKSPACE = times
            for more_mib in CUDNN_MIB:
                tried[times, more_mib] = outcomes(cases, Summary(cudnn_mib=more_mib))
    finally:
        operations.SPATIAL_WORKSPACE = shipped
    found: list[Outcome] = []
    for group in sorted({case.group for case in cases}):
        best = min(
            tried,
            key=lambda one: error([each for each in tried[one] if each.case.group != group]),
        )
        mine = [each for each in tried[best] if each.case.group == group]
        print(f"  without {group:<24} spatial {best[0]:.1f} cuDNN {best[1]:.0f} MiB"
              f"  -> {error(mine):6.1%} on it")  # fmt: skip
        found.extend(mine)
    return found


def show(title: str, found: Sequence[Outcome], each: bool = False) -> None:
    if not found:
        return
    if each:
        for one in found:
            print(f"  {one.case.name:<28} {one.case.measured_mib:>8.0f} {one.estimate_mib:>8.0f}"
                  f" {one.off:>+7.1%} {one.ms:>6.1f} ms")  # fmt: skip
    apart = [one.estimate_mib - one.case.measured_mib for one in found]
    over = [mib for mib in apart if mib > 0]
    print(
        f"{title}: {len(found)} jobs, MAPE {error(found):.2%}, median"
        f" {statistics.median(abs(one.off) for one in found):.2%}, under"
        f" {sum(mib < 0 for mib in apart)}, worst under {min(min(apart), 0):.0f} MiB, worst over"
        f" {max(max(apart), 0):.0f} MiB, mean over {statistics.mean(over or [0]):.0f} MiB,"
        f" {statistics.median(one.ms for one in found):.1f} ms each\n"
    )


def show_perceptrons(file: Path) -> None:
    """The context fitted on every second one, the others tested."""
    found = outcomes(perceptrons(file), Summary(context_mib=0.0))
    fitted, tested = found[::2], found[1::2]
    context_mib = statistics.median(one.case.measured_mib - one.estimate_mib for one in fitted)

    def moved(half: Sequence[Outcome]) -> list[Outcome]:
        return [
            dataclasses.replace(one, estimate_mib=one.estimate_mib + context_mib) for one in half
        ]

    print(f"perceptrons: context {context_mib:.0f} MiB, the median of the fitted half")
    show("  fitted half", moved(fitted))
    show("  held-out half", moved(tested))
    near = [abs(o.estimate_mib - o.case.measured_mib) <= 1024 for o in moved(tested)]
    print(f"  held-out within 1 GiB: {statistics.mean(near):.1%}\n")


def show_timm(measured: Path, tables: Path, published_jobs: Sequence[Case]) -> None:
    """The spatial workspace fitted on families that no published job is of; the rest tested."""
    cases = list(timm_models(measured, tables))
    known = [case for case in cases if PUBLISHED.search(case.group)]
    fitted = [case for case in cases if not PUBLISHED.search(case.group)]
    shipped = operations.SPATIAL_WORKSPACE
    found = {}
    try:
        for times in SPATIAL:
            operations.SPATIAL_WORKSPACE = times
            found[times] = outcomes(fitted, Summary())
            show(f"TIMM, other families, spatial {times:.1f}", found[times])
        best = min(found, key=lambda times: error(found[times]))
        operations.SPATIAL_WORKSPACE = best
        again = outcomes(published_jobs, Summary())
        show(f"published CNN jobs, spatial {best:.1f} as fitted on those", again)
    finally:
        operations.SPATIAL_WORKSPACE = shipped
    show("TIMM, the published jobs' families, as shipped", outcomes(known, Summary()))
    show("TIMM, all, as shipped", outcomes(cases, Summary()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=Path, help="folder of prototype job files")
    parser.add_argument("--mlps", type=Path, help="CSV of measured perceptrons")
    parser.add_argument("--tokens", type=int, default=512, help="sequence length (default 512)")
    parser.add_argument("--timm", type=Path, help="CSV of measured TIMM models")
    parser.add_argument("--tables", type=Path, help="folder of their tables")
    asked = parser.parse_args()
    sound: list[Case] = []
    if asked.jobs:
        cases = list(published(asked.jobs, asked.tokens))
        shaped = [case for case in cases if "Layer (type)" in (case.job.summary or "")]
        sound = [case for case in shaped if case.group not in WRONG]
        for name, why in WRONG.items():
            print(f"left out: {name}: {why}")
        show("CNNs, constants as shipped", outcomes(sound, Summary()), each=True)
        show("CNNs, with those left out", outcomes(shaped, Summary()))
        print("CNNs, one architecture held out at a time:")
        show("CNNs, held out by architecture", held_out(sound))
        printed = [case for case in cases if case not in shaped]
        show(f"transformers, {asked.tokens} tokens", outcomes(printed, Summary()), each=True)
    if asked.mlps:
        show_perceptrons(asked.mlps)
    if asked.timm and asked.tables:
        show_timm(asked.timm, asked.tables, sound)


if __name__ == "__main__":
    main()
