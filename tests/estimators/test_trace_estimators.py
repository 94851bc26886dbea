"""`trace` and `faketensor`: from a trace's text to estimates."""

from __future__ import annotations

import pytest

from radrm.core.records import JobSpec, Needs, Role
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.interface import Description
from radrm.estimators.memory import context_mib
from radrm.estimators.trace import FURTHEST_SCALING, FakeTensor, Trace
from radrm.estimators.traces import Traced
from radrm.jobfile.radfile import read_job_file
from radrm.structs import replace
from radrm.wiring import describe
from tests.paths import SHARED_DATA

JOBS = SHARED_DATA / "jobs"
TRACED = Traced(
    need_mib=900.0, reserved_mib=1000.0, workspace_mib=10.0, weights_mib=100.0,
    gradients_mib=100.0, optimizer_mib=200.0, faketensor_mib=700.0, batch_size=32,
)  # fmt: skip


def described(**changes: object) -> Description:
    job = Description(spec=JobSpec(name="a", user="ann", uid=1000), trace=TRACED.to_text())
    return replace(job, **changes)


def memory(rule: Trace | FakeTensor, job: Description) -> float | None:
    told = rule.estimate(job)
    assert all(e.quantity is Quantity.MEMORY and e.source == rule.name for e in told)
    assert all(e.value == e.upper for e in told)
    return told[0].value if told else None


def tensors(job: Description) -> float | None:
    found = memory(Trace(context_mib=500), job)
    return None if found is None else found - 500


def test_reserved_and_context() -> None:
    a100 = "NVIDIA A100-SXM4-40GB"
    assert memory(Trace(), described()) == 1000 + context_mib()
    assert memory(Trace(), described(device_kind=a100)) == 1000 + context_mib(a100)
    assert memory(Trace(context_mib=500), described()) == 1500


def test_a_trace_at_the_end_of_a_summary() -> None:
    summary = "Layer (type)  Output\n====\n" + TRACED.to_text()
    assert tensors(described(trace=None, summary=summary)) == 1000


def test_the_jobs_own_trace_comes_first() -> None:
    other = replace(TRACED, reserved_mib=5.0).to_text()
    assert tensors(described(summary=other)) == 1000


def test_nothing_without_a_trace() -> None:
    for rule in (Trace(), FakeTensor()):
        assert memory(rule, described(trace=None)) is None
        assert memory(rule, described(trace="no such thing")) is None


def test_another_batch_size_scales_what_grows() -> None:
    """Of 1000 MiB, 400 are weights, gradients and optimizer."""
    assert tensors(described(batch_size=64)) == 400 + 2 * 600
    assert tensors(described(batch_size=16)) == 400 + 300
    far = int(32 * FURTHEST_SCALING) + 1
    assert tensors(described(batch_size=far)) is None
    assert tensors(described(batch_size=7)) is None


def test_another_optimizer_or_precision_is_another_job() -> None:
    for rule in (Trace(), FakeTensor()):
        assert memory(rule, described(optimizer="sgd")) is None
        assert memory(rule, described(precision="amp")) is None
        assert memory(rule, described(optimizer="Adam", precision="FP32")) is not None


def test_another_number_of_gpus_is_another_job() -> None:
    two = replace(TRACED, gpus=2, parallel="dp").to_text()
    for rule in (Trace(), FakeTensor()):
        assert memory(rule, described(trace=two)) is None
    spec = JobSpec(name="a", user="ann", uid=1000, roles=(Role(needs=Needs(gpus=2)),))
    assert tensors(described(trace=two, spec=spec)) == 1000
    assert tensors(described(spec=spec)) is None


def test_faketensor_from_the_trace() -> None:
    assert memory(FakeTensor(), described(batch_size=32)) == 700
    assert memory(FakeTensor(), described(batch_size=64)) is None


def test_the_published_figure_comes_first() -> None:
    assert memory(FakeTensor(), described(published={"faketensor": 12.5})) == 12.5
    whole = float(WHOLE_DEVICE_MIB)
    assert memory(FakeTensor(), described(published={"faketensor": whole})) == whole
    assert memory(FakeTensor(), described(published={"measured": 1.0, "horus": 2.0})) == 700


@pytest.mark.skipif(not JOBS.is_dir(), reason="the published job files are not here")
def test_published_jobs_keep_their_figures() -> None:
    figures = {}
    for file in ("resnet.rad", "BERT_base.rad"):
        job = read_job_file((JOBS / file).read_bytes(), file, {})
        figures[file] = memory(FakeTensor(), describe(job))
    assert figures == {"resnet.rad": 2672.516029, "BERT_base.rad": float(WHOLE_DEVICE_MIB)}


def test_the_guesses_of_a_trace_are_told_unless_the_job_settles_them() -> None:
    text = replace(
        TRACED, guesses=("batch size: 32, guessed", "optimizer: adam, guessed")
    ).to_text()
    (told,) = Trace().estimate(described(trace=text))
    assert told.guesses[:2] == ("batch size: 32, guessed", "optimizer: adam, guessed")
    (told,) = Trace().estimate(described(trace=text, optimizer="adam"))
    assert "optimizer: adam, guessed" not in told.guesses
    (told,) = Trace().estimate(described(trace=text, batch_size=64))
    assert "batch size: scaled to 64 from a trace at 32" in told.guesses
    assert "batch size: 32, guessed" not in told.guesses
