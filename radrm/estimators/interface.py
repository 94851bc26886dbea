"""The interface of estimators: a description of a job in, estimates out.

Estimators run outside of `step`, once per submission. The core knows only their results
(`Estimate`).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from radrm.core.records import Chip, Estimate, JobSpec, Profiled


class PastRun(Struct, frozen=True):
    """The measured need of one attempt, and the estimates that were made of it before.

    - `peak_mib`: the peak of the fullest GPU.
    - `smact` (0..1) and `duration_s`: as if alone on its GPUs; for a shared run they are
      corrected (`learning.contention`). `smact_most`: the largest that fits its readings.
      `duration_s` is of all the job's work: None unless the job completed, or reported how far
      it was while it was alone.
    - `duration_most_s`: the longest duration that fits the readings of a shared run.
    - `least_s`: alone it takes longer than this; None unless it was stopped.
    - `alone`: no other job was on its GPUs. `smact_alone`: `smact` is from a time alone.
    - `told`: each estimator's own figure in MiB, by name. `told_smact` and `told_duration`
      (seconds): likewise.
    - `driver` and `cuda`: the versions of the GPU driver and of the program's CUDA. None:
      unknown. `family`: the kind of model that an estimator saw.
    - `length`: the options that decide how long the program works (`learning.fingerprint`).
    - `sm_rate`: that of its kind of GPU (`Chip`); None: unknown.
    - `gpus`: the number of its GPUs at its end. One that was resized shows no duration.
    """

    peak_mib: int
    device_kind: str
    smact: float | None = None
    alone: bool = False
    duration_s: float | None = None
    told: dict[str, float] = field(default_factory=dict)
    driver: str | None = None
    cuda: str | None = None
    smact_most: float | None = None
    smact_alone: bool = False
    duration_most_s: float | None = None
    least_s: float | None = None
    told_smact: dict[str, float] = field(default_factory=dict)
    told_duration: dict[str, float] = field(default_factory=dict)
    length: str | None = None
    gpus: int = 1
    sm_rate: float | None = None
    family: str | None = None

    @property
    def own_smact(self) -> float | None:
        """Its SM activity as measured alone; None if it was not."""
        return self.smact if self.alone or self.smact_alone else None


class Description(Struct, frozen=True):
    """The input of an estimator: a job's spec, and facts about the job and the machine.

    - `published`: figures of a prototype job file in MiB, by name (`measured`, `horus`,
      `faketensor`, `gpumemnet`).
    - `summary`: the text of the model's summary at submission.
    - `batch_size`: per GPU (with DataParallel, of all GPUs together). `sequence_length`: in
      tokens. `input_shape`: of one sample.
    - `trace`: the text of a trace of its training step (`radrm.estimators.traces`).
    - `device_kind`: the name of the GPUs that it will run on, such as
      `NVIDIA A100-SXM4-40GB`. None: there are several kinds, or it is unknown.
    - `module_loading`: the job's CUDA_MODULE_LOADING, such as `LAZY`. None: not set.
    - `driver`: the GPU driver's version here. `contexts`: the measured size of a CUDA
      context in MiB on these GPUs under this driver, by the version of the program's CUDA.
    - `same_runs`: earlier runs of the same job; `named_runs`: of the user's jobs of the same
      name; `recent_runs`: of any job on this machine, and of these `own_runs`: of the user's jobs.
      The latest is first in each.
    - `chips`: the kinds of GPU that are here. `smact_type`: the type of GPU that `declared_smact`
      is about, as the user wrote it; None: whichever the job gets.
    - `length`: as in `PastRun`.
    - `profile`: the job's run times on the kinds and numbers of GPUs for which they are known.
    """

    spec: JobSpec
    declared_mib: int | None = None
    declared_smact: float | None = None
    smact_type: str | None = None
    declared_duration_s: float | None = None
    published: dict[str, float] = field(default_factory=dict)
    summary: str | None = None
    batch_size: int | None = None
    sequence_length: int | None = None
    input_shape: tuple[int, ...] | None = None
    optimizer: str | None = None
    precision: str | None = None
    trace: str | None = None
    device_kind: str | None = None
    driver: str | None = None
    module_loading: str | None = None
    contexts: dict[str, float] = field(default_factory=dict)
    length: str | None = None
    same_runs: tuple[PastRun, ...] = ()
    named_runs: tuple[PastRun, ...] = ()
    recent_runs: tuple[PastRun, ...] = ()
    own_runs: tuple[PastRun, ...] = ()
    profile: tuple[Profiled, ...] = ()
    chips: tuple[Chip, ...] = ()


class Estimator(Protocol):
    """Predicts the need of a job. It is asked outside `step`, once per submission; `declared` and
    `history` again while the job waits, when a run of the same job has ended."""

    @property
    def name(self) -> str: ...

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        """Return the estimates; quantities that it cannot estimate are left out.

        It may raise `RadrmError` if an input of the job is incomplete or wrong. The user sees
        the error, and the next estimator is asked.
        """
        ...
