"""The accuracy of an ensemble on rows, as in tables 5.3, 5.5 and 5.7 of the thesis."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import markdown
from benchmarks.gpumemnet.data import SHARED, Row
from benchmarks.gpumemnet.fit import bucket_of
from radrm.estimators.gpumemnet.estimator import Ensemble
from radrm.estimators.gpumemnet.features import Family, features_of
from radrm.estimators.summaries.read import read_summary
from radrm.jobfile.radfile import read_job_file

LARGEST_MEASURED_MIB = 40_500
"""The thesis measured on 40 GB, so its tables have no job that needs more."""
_MIN_WIDTH = 1


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table. `precision`, `recall`, `f1`: weighted by how frequent a bucket
    is, as in the thesis (where recall equals accuracy, as it must then). `common`: the
    share of the commonest bucket, which is what always naming it would reach. `under`:
    how often the named bucket lies below the true one."""

    name: str
    rows: int
    accuracy: float
    precision: float
    recall: float
    f1: float
    common: float
    under: float


Told = tuple[int, int]
"""The predicted bucket and the true one."""


def told(tested: Ensemble, rows: Sequence[Row]) -> list[Told]:
    """Of those rows that the thesis could have measured."""
    return [
        (tested.bucket(row.features.vector()), bucket_of(row.memory_mib, tested.edges_mib))
        for row in rows
        if row.memory_mib <= LARGEST_MEASURED_MIB
    ]


def line(name: str, pairs: Sequence[Told]) -> Line:
    named, true = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return of_buckets(name, named, true)


def of_buckets(name: str, named: Sequence[int], true: Sequence[int]) -> Line:
    count, said, met = Counter(true), Counter(named), Counter[int]()
    met.update(t for t, m in zip(named, true, strict=True) if t == m)
    whole = len(true)

    def part(some: int, of: int) -> float:
        return some / of if of else 0.0

    precision = {b: part(met[b], said[b]) for b in count}
    recall = {b: part(met[b], count[b]) for b in count}
    f1 = {b: part_f1(precision[b], recall[b]) for b in count}
    return Line(
        name=name,
        rows=whole,
        accuracy=met.total() / whole,
        precision=sum(precision[b] * count[b] for b in count) / whole,
        recall=sum(recall[b] * count[b] for b in count) / whole,
        f1=sum(f1[b] * count[b] for b in count) / whole,
        common=max(count.values()) / whole,
        under=sum(t < m for t, m in zip(named, true, strict=True)) / whole,
    )


def part_f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# ------------------------------------------------------------------ the published jobs


def published_jobs(family: Family) -> list[tuple[str, Row, float | None]]:
    """Name, job and published GPUMemNet figure of each different measured job of a family.

    Two jobs that differ in epochs alone are one. The batch size is the command's.
    """
    folder = SHARED / "jobs"
    summaries = {path.name.lower(): path for path in folder.glob("*.model")}
    found: dict[str, tuple[str, Row, float | None]] = {}
    for path in sorted(folder.glob("*.rad")):
        job = read_job_file(path.read_bytes(), path.name, {})
        summary = summaries.get((job.options.model_summary or "").lower())
        if summary is None or job.measured is None or (job.options.gpus or 1) > 1:
            continue
        features = features_of(read_summary(summary.read_text()), job.options.batch_size or 0)
        if features is not None and features.family is family:
            key = path.stem.replace("50e", "20e")
            row = Row(path.stem, features, job.measured, True)
            found.setdefault(key, (path.stem, row, job.gpumemnet))
    return list(found.values())


def published_lines(name: str, tested: Ensemble, family: Family) -> list[Line]:
    """Ours on the published jobs, and the published figures on the same."""
    jobs = published_jobs(family)
    if not jobs:
        return []
    edges = tested.edges_mib
    true = [bucket_of(row.memory_mib, edges) for _, row, _ in jobs]
    named = [tested.bucket(row.features.vector()) for _, row, _ in jobs]
    theirs = [bucket_of((mib or 0) - _MIN_WIDTH, edges) for _, _, mib in jobs]
    for (job, row, mib), ours, bucket in zip(jobs, named, true, strict=True):
        figures = f"measured {row.memory_mib:.0f}, published {mib}, ours {8000 * (ours + 1)}"
        print(f"{job}: {figures}, right {8000 * (bucket + 1)}", file=sys.stderr)
    return [
        of_buckets(f"{name}, published jobs", named, true),
        of_buckets("  the published estimates on the same jobs", theirs, true),
    ]


# ------------------------------------------------------------------ as a document

# Of the thesis: table, then accuracy, precision, F1 of the MLP ensemble.
THESIS: Mapping[str, tuple[tuple[str, float, float, float], ...]] = {
    "Table 5.3: MLPs": (
        ("thesis: MLP, 1 GB", 0.9542, 0.9251, 0.9386),
        ("thesis: MLP, 2 GB", 0.9706, 0.9621, 0.9662),
    ),
    "Table 5.5: CNNs": (("thesis: CNN, random networks", 0.8825, 0.8816, 0.8803),),
    "Table 5.7: transformers": (("thesis: transformer, random networks", 0.8552, 0.8524, 0.8494),),
}


def document(sections: Mapping[str, Sequence[Line]]) -> str:
    lines = [
        "# GPUMemNet: accuracy",
        "",
        "Made by `python -m benchmarks.gpumemnet.train` ([tests](gpumemnet.md#tests)): tables "
        "5.3, 5.5 and 5.7 of\nthe thesis. CNNs and transformers have buckets of 8 GB. Recall "
        "equals accuracy. Commonest: the accuracy of always\nnaming the commonest bucket. Under: "
        "the share of answers below the true bucket.",
        "",
    ]
    rows: list[tuple[str, ...]] = []
    for title, ours in sections.items():
        for line in ours:
            parts = (line.accuracy, line.precision, line.f1, line.common, line.under)
            rows.append((line.name, str(line.rows), *(f"{part:.4f}" for part in parts)))
        for name, *figures in THESIS[title]:
            rows.append((name, "", *(f"{figure:.4f}" for figure in figures), "", ""))
    heads = ("", "rows", "accuracy", "precision", "F1", "commonest", "under")
    lines += markdown.table(heads, rows)
    missed = [
        f"{line.name} ({line.accuracy:.3f}; thesis {published:.4f})"
        for title, ours in sections.items()
        for name, published, *_ in THESIS[title]
        for line in ours
        if name == f"thesis: {line.name}" and line.accuracy < published
    ]
    if missed:
        lines += ["", f"**Missed**: {', '.join(missed)}. [Why](gpumemnet.md#beside-the-thesis)."]
    return "\n".join(lines) + "\n"
