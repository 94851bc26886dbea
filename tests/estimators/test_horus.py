"""Horus: the formula by hand, and how near it comes to the published figures."""

from __future__ import annotations

import dataclasses

import pytest

from radrm.core.records import Estimate, JobSpec
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.horus import Horus
from radrm.estimators.interface import Description
from radrm.jobfile.radfile import read_job_file
from radrm.structs import replace
from radrm.wiring import describe
from tests.paths import SHARED_DATA

JOBS = SHARED_DATA / "jobs"
SPEC = JobSpec(name="a", user="ann", uid=1000)

TABLE = """\
        Layer (type)               Output Shape         Param #
================================================================
            Conv2d-1           [-1, 32, 26, 26]             320
              ReLU-2           [-1, 32, 26, 26]               0
         MaxPool2d-3           [-1, 32, 13, 13]               0
            Linear-4                   [-1, 10]          54,090
================================================================
Total params: 54,410
"""
ACTIVATIONS, PARAMETERS = 2 * 32 * 26 * 26 + 10, 54_410


def described(**changes: object) -> Description:
    return replace(Description(spec=SPEC, summary=TABLE, batch_size=64), **changes)


def memory(job: Description, rule: Horus | None = None) -> float | None:
    told = (rule or Horus()).estimate(job)
    assert all(e.quantity is Quantity.MEMORY and e.source == "horus" for e in told)
    assert all(e.value == e.upper for e in told)
    return told[0].value if told else None


def test_the_formula_by_hand() -> None:
    """(B * A + P) + (B * G) + d with G = P, in elements of 4 bytes."""
    elements = 64 * ACTIVATIONS + PARAMETERS + 64 * PARAMETERS
    assert memory(described()) == pytest.approx(elements * 4 / 2**20 + 800)
    assert memory(described(), Horus(overhead_mib=0)) == pytest.approx(elements * 4 / 2**20)


def test_the_files_own_figure_comes_first() -> None:
    assert memory(described(published={"horus": 1234.5})) == 1234.5
    whole = float(WHOLE_DEVICE_MIB)
    assert memory(described(published={"horus": whole}, summary=None)) == whole
    others = {"measured": 1.0, "faketensor": 2.0, "gpumemnet": 3.0}
    assert memory(described(published=others)) == memory(described())


def test_a_tables_own_batch_size_stands_in_for_one_that_is_not_given() -> None:
    made_for_64 = TABLE.replace("[-1,", "[64,")
    assert memory(described(summary=made_for_64, batch_size=None)) == memory(described())
    assert memory(described(summary=made_for_64, batch_size=32)) == memory(described(batch_size=32))


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": None},
        {"summary": ""},
        {"summary": "BertModel(\n  (dense): Linear(in_features=768), 1 params\n)"},
        {"summary": TABLE[: TABLE.index("Linear")]},
        {"summary": TABLE.replace("Conv2d", "X").replace("ReLU", "Y").replace("Linear", "Z")},
        {"batch_size": None},
    ],
)
def test_what_it_cannot_read_it_does_not_guess(changes: dict[str, object]) -> None:
    assert memory(described(**changes)) is None


def test_a_table_of_absurd_size_asks_for_a_whole_device() -> None:
    vast = TABLE.replace("26, 26", "999999999999999, 999999999999999")
    assert Horus().estimate(described(summary=vast)) == (
        Estimate(Quantity.MEMORY, WHOLE_DEVICE_MIB, WHOLE_DEVICE_MIB, "horus"),
    )


# ------------------------------------------------------------------ against the published


def published_files() -> list[str]:
    return sorted(path.name for path in JOBS.glob("*.rad")) if JOBS.is_dir() else []


def as_submitted(name: str) -> Description:
    """A published job file with the summary it names (two are named in another case)."""
    job_file = read_job_file((JOBS / name).read_bytes(), name, {})
    summaries = {path.name.lower(): path for path in JOBS.glob("*.model")}
    summary = summaries.get((job_file.options.model_summary or "").lower())
    return describe(dataclasses.replace(job_file, summary=summary.read_text() if summary else None))


@pytest.mark.skipif(not JOBS.is_dir(), reason="the published job files are not here")
def test_the_published_figures_are_reproduced() -> None:
    """Every CNN within 1 %, two thirds within 0.01 %; what was "too large" is so here too."""
    off_percent: dict[str, float] = {}
    for name in published_files():
        job = as_submitted(name)
        told = job.published.get("horus")
        computed = memory(replace(job, published={}))
        if name == "mnist_train.rad":  # its published figure is for the summary's batch of 64
            computed = memory(replace(job, published={}, batch_size=64))
        if computed is None or told is None:
            continue
        if told == WHOLE_DEVICE_MIB:
            assert computed > 40_000, name
            continue
        off_percent[name] = 100 * abs(computed - told) / told
    assert len(off_percent) >= 40
    assert max(off_percent.values()) < 1.0, off_percent
    near = [off for off in off_percent.values() if off < 0.01]
    assert len(near) >= 2 * len(off_percent) / 3, off_percent


@pytest.mark.parametrize("name", published_files())
def test_each_published_file_gets_its_own_figure_or_none(name: str) -> None:
    job = as_submitted(name)
    assert memory(job) == job.published.get("horus")
    if any(word in name for word in ("BERT", "gpt2", "xlnet")):
        assert memory(replace(job, published={})) is None, "no shapes, no estimate"
