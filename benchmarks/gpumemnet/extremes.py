"""The worst estimates of Figures 5.11 to 5.13 beside ours, for the published jobs on one GPU.

    python -m benchmarks.gpumemnet.extremes

The thesis's estimates are those of the prototype's job files; what its text says of gpt2_large, on
two GPUs, they do not have. Ours are GPUMemNet's with the shipped
weights, which have seen TIMM's measurements of the same models.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.gpumemnet.data import SHARED
from radrm.estimators.gpumemnet.estimator import bucket_edge_mib
from radrm.estimators.gpumemnet.features import features_of
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


def main() -> None:
    measured = jobs()
    figures: dict[str, dict[str, float | None]] = {
        "FakeTensor, published": {name: job.faketensor for name, job in measured.items()},
        "Horus, published": {name: job.horus for name, job in measured.items()},
        "GPUMemNet, published": {name: job.gpumemnet for name, job in measured.items()},
        "GPUMemNet, ours": {name: ours(job) for name, job in measured.items()},
    }
    print(f"{len(measured)} jobs; GiB above the measured memory")
    print("| | estimates | below | furthest below | furthest above |")
    print("|---|---|---|---|---|")
    for estimator, told in figures.items():
        off = {
            name: (mib - (measured[name].measured or 0)) / 1024
            for name, mib in told.items()
            if mib is not None and mib < _FAILED_MIB
        }
        least, most = min(off, key=lambda n: off[n]), max(off, key=lambda n: off[n])
        below = sorted((each, name) for name, each in off.items() if each < 0)
        print(
            f"| {estimator} | {len(off)} | {len(below)} | {least} {off[least]:+.1f} |"
            f" {most} {off[most]:+.1f} |"
        )
    print("ours below:", ", ".join(f"{name} {each:+.1f}" for each, name in below))
    large = jobs(2)["gpt2_large_2"]
    print(f"gpt2_large on two GPUs: measured {large.measured}, ours {ours(large)} MiB")


if __name__ == "__main__":
    main()
