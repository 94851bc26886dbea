"""The worst estimates of Figures 5.11 to 5.13 beside ours, for the published jobs on one GPU.

    python -m benchmarks.gpumemnet.extremes

It prints the section `extremes` of docs/lab/gpumemnet.md. The thesis's estimates are those of the
prototype's job files; what its text says of gpt2_large, on two GPUs, they do not have. Ours are
GPUMemNet's with the shipped weights, which have seen TIMM's measurements of the same models.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks import markdown
from benchmarks.gpumemnet.data import SHARED, modelled
from benchmarks.gpumemnet.scores import LARGEST_MEASURED_MIB
from benchmarks.gpumemnet.train import STEPS_OF_8_GB
from radrm.estimators.gpumemnet.estimator import bucket_edge_mib
from radrm.estimators.gpumemnet.features import Family, features_of
from radrm.estimators.summaries.read import read_summary
from radrm.jobfile.radfile import JobFile, read_job_file

_FAILED_MIB = 1e6
"""A figure beyond any GPU: the estimator gave none."""


def jobs(gpus: int = 1) -> Mapping[str, JobFile]:
    """The measured jobs on so many GPUs, by name; epochs make no difference."""
    found: dict[str, JobFile] = {}
    for path in sorted((SHARED / "jobs").glob("*.rad")):
        job = read_job_file(path.read_bytes(), path.name, {})
        if job.measured is not None and (job.options.gpus or 1) == gpus:
            found.setdefault(path.stem.replace("50e", "20e"), job)
    return found


def ours(job: JobFile) -> float | None:
    """What GPUMemNet says of a job's summary, in MiB."""
    summaries = {path.name.lower(): path for path in (SHARED / "jobs").glob("*.model")}
    path = summaries.get((job.options.model_summary or "").lower())
    if path is None:
        return None
    features = features_of(read_summary(path.read_text()), job.options.batch_size or 0)
    return bucket_edge_mib(features) if features is not None else None


def near_edges(family: Family, part: float = 0.05) -> float:
    """The part of the random networks whose label a small error moves into another bucket."""
    sizes = [row.memory_mib for row in modelled(family) if row.memory_mib <= LARGEST_MEASURED_MIB]
    near = [mib for mib in sizes if any(abs(mib / edge - 1) < part for edge in STEPS_OF_8_GB)]
    return len(near) / len(sizes)


def main() -> None:
    measured = jobs()
    figures: dict[str, dict[str, float | None]] = {
        "FakeTensor, published": {name: job.faketensor for name, job in measured.items()},
        "Horus, published": {name: job.horus for name, job in measured.items()},
        "GPUMemNet, published": {name: job.gpumemnet for name, job in measured.items()},
        "GPUMemNet, ours": {name: ours(job) for name, job in measured.items()},
    }
    rows = []
    for estimator, told in figures.items():
        off = {
            f"{name}, {measured[name].options.batch_size}": (mib - (measured[name].measured or 0))
            / 1024
            for name, mib in told.items()
            if mib is not None and mib < _FAILED_MIB
        }
        least, most = min(off, key=lambda n: off[n]), max(off, key=lambda n: off[n])
        below = sum(each < 0 for each in off.values())
        ends = (f"{name}: {off[name]:+.1f}" for name in (least, most))
        rows.append((estimator, str(len(off)), str(below), *ends))
    cnns, transformers = map(near_edges, (Family.CNN, Family.TRANSFORMER))
    large = jobs(2)["gpt2_large_2"]
    measured_mib, named_mib = large.measured or 0, ours(large) or 0
    heads = ("GiB above the measured memory", "jobs", "below", "furthest below", "furthest above")
    print(*markdown.table(heads, rows), sep="\n")
    print(
        f"\nOf the random CNNs {cnns:.0%}, of the transformers {transformers:.0%} lie within 5 % "
        f"of a bucket's edge. GPT-2 large, on two GPUs: measured {measured_mib:,.0f} MiB, ours "
        f"{named_mib:,.0f}."
    )


if __name__ == "__main__":
    main()
