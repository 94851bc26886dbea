"""`script`: from the trace of a job's own command to its estimate."""

from __future__ import annotations

import pytest

from radrm.core.records import JobSpec, Needs, Role
from radrm.core.words import Quantity
from radrm.estimators.families import Family
from radrm.estimators.interface import Description
from radrm.estimators.memory import context_mib
from radrm.estimators.script import Script, sentence, step_after
from radrm.estimators.trace import FakeTensor, Trace
from radrm.estimators.traces import NoStep, Traced
from radrm.estimators.traces import Script as Told
from radrm.structs import replace

TOLD = Told("train.py", (3,), "steps", ("torch.compile", "evaluation"))
TRACED = Traced(
    need_mib=900.0, reserved_mib=1000.0, workspace_mib=10.0, weights_mib=100.0,
    gradients_mib=100.0, optimizer_mib=200.0, faketensor_mib=0.0, seconds=4.7, script=TOLD,
)  # fmt: skip
DOCUMENT = {
    "version": 1, "events": [1 << 30], "calls": [], "marks": [], "convolutions": [],
    "parameter_bytes": 1 << 29, "optimizer": "AdamW", "precision": "fp32", "gpus": 1,
    "parallel": "none", "torch": "2.13.0", "cuda": "12.6", "seconds": 4.7, "guesses": [],
    "benchmark": True,
    "script": {"program": "train.py", "steps": [3, 2], "backward": 3, "reason": "steps",
               "skipped": ["torch.compile", "evaluation"]},
}  # fmt: skip


def described(traced: Traced, **changes: object) -> Description:
    job = Description(spec=JobSpec(name="a", user="ann", uid=1000), trace=traced.to_text())
    return replace(job, **changes)


def test_the_command_is_believed_as_it_ran() -> None:
    (told,) = Script().estimate(described(TRACED, batch_size=7, optimizer="sgd"))
    assert (told.quantity, told.source) == (Quantity.MEMORY, "script")
    assert told.value == told.upper == 1000 + context_mib()
    assert "train.py" in told.basis and "5 s" in told.basis


@pytest.mark.parametrize(
    ("trial", "family", "upper"),
    [  # the value is 2716; of a CNN 3% and 2.9 times the largest convolution are added
        (0, Family.TRANSFORMER, 2716), (8500, Family.BENCHMARK, 2716 * 1.03 + 290),
        (8500, Family.TRANSFORMER, 2716), (9000, Family.BENCHMARK, 1.03 * 9000 + 1716),
    ],
)  # fmt: skip
def test_what_cudnn_measures_is_within_the_upper_bound(
    trial: float, family: Family, upper: float
) -> None:
    traced = replace(TRACED, benchmark=True, map_mib=100.0, trial_mib=trial, family=family)
    (told,) = Script().estimate(described(traced))
    assert (told.value, told.upper) == (2716, pytest.approx(upper))


def test_a_trace_of_a_command_is_none_of_a_factory_and_the_reverse() -> None:
    assert Trace().estimate(described(TRACED)) == ()
    assert FakeTensor().estimate(described(TRACED)) == ()
    assert Script().estimate(described(replace(TRACED, script=None))) == ()
    assert Script().estimate(described(TRACED, trace=None)) == ()


def test_another_number_of_gpus_is_another_job() -> None:
    two = JobSpec(name="a", user="ann", uid=1, roles=(Role(needs=Needs(gpus=2)),))
    assert Script().estimate(described(TRACED, spec=two)) == ()
    assert Script().estimate(described(replace(TRACED, gpus=2), spec=two))


def test_a_document_tells_how_the_command_was_traced() -> None:
    traced = Traced.from_events(DOCUMENT)
    assert traced.script == Told("train.py", (3, 2), "steps", ("torch.compile", "evaluation"))
    assert traced.benchmark and Traced.from_text(traced.to_text()) == replace(
        traced, need_mib=round(traced.need_mib, 2), reserved_mib=round(traced.reserved_mib, 2)
    )
    plain = Traced.from_events({**DOCUMENT, "script": None, "benchmark": None})
    assert plain.script is None and not plain.benchmark


@pytest.mark.parametrize(
    "script",
    [
        7,
        {"program": 7, "steps": [3]},
        {"program": "a", "steps": "3"},
        {"program": "a", "steps": [-1]},
        {"program": "a", "steps": [1 << 60]},
        {"program": "a", "steps": [True]},
    ],
)
def test_a_wrong_account_of_it_is_refused(script: object) -> None:
    with pytest.raises(Exception, match="cannot be used"):
        Traced.from_events({**DOCUMENT, "script": script})


def test_what_a_user_wrote_is_bounded_and_plain() -> None:
    evil = {
        "program": "a\x1b[31m\nscript: b" * 50,
        "steps": [1] * 500,
        "skipped": ["x\n" * 500] * 99,
    }
    traced = Traced.from_events({**DOCUMENT, "script": evil})
    text = traced.to_text()
    assert len(text) < 6000 and "\x1b" not in text
    again = Traced.from_text(text)
    assert again.script is not None and traced.script is not None
    assert again.script.program == traced.script.program and len(again.script.skipped) == 12


def test_an_error_names_the_line_of_the_users_file() -> None:
    with pytest.raises(NoStep) as caught:
        Traced.from_events({"version": 1, "error": "KeyError: 'x'", "line": "train.py:41"})
    assert caught.value.cause == "train.py:41: KeyError: 'x'"


def test_the_sentence_says_how_much_was_traced_and_what_was_not() -> None:
    assert sentence(Told("a.py", (1,)), 0.2) == "1 step of a.py traced in 1 s"
    both = sentence(TOLD, 4.7)
    assert "3 steps of train.py" in both and "torch.compile and evaluation were" in both
    assert "was skipped" in sentence(Told("a.py", (3,), "steps", ("compile",)), 3.0)
    assert "backward passes of a.py" in sentence(Told("a.py", (), "backward passes"), 3.0)


def test_each_cause_has_one_step_and_they_differ() -> None:
    causes = [
        "train.py:3: ModuleNotFoundError: No module named 'timm'",
        "URLError: <urlopen error [Errno -2] Name or service not known>",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data'",
        "FSDP is not covered",
    ]
    assert len({step_after(cause) for cause in causes}) == len(causes)
