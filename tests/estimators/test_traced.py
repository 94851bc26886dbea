"""A trace as text and as events: what comes of it, and what is not believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile
from radrm.estimators.memory import (
    GROWTH,
    Convolution,
    Pass,
    context_mib,
    overheads,
    trial_bytes,
    workspace_bytes,
)
from radrm.estimators.traces import HEADING, Traced, replayed
from radrm.structs import replace

MIB = 1 << 20

sizes = st.floats(0, 1e6).map(lambda value: round(value, 2))
words = st.text("abcXYZ0123456789.+-", min_size=1, max_size=20)
traces = st.builds(
    Traced,
    need_mib=sizes, reserved_mib=sizes, workspace_mib=sizes, weights_mib=sizes,
    gradients_mib=sizes, optimizer_mib=sizes, faketensor_mib=sizes,
    batch_size=st.none() | st.integers(1, 1 << 20), optimizer=words, precision=words,
    gpus=st.integers(1, 64), parallel=st.sampled_from(["none", "dp", "ddp"]), torch=words,
    seconds=sizes, cuda=words, guesses=st.lists(words, max_size=12).map(tuple),
)  # fmt: skip


def document(**changes: Any) -> dict[str, Any]:
    sound = {
        "version": 1, "events": [], "calls": [], "marks": [], "convolutions": [],
        "parameter_bytes": 3 * MIB, "gradient_bytes": 2 * MIB, "optimizer_bytes": MIB,
        "faketensor_bytes": 5 * MIB, "batch_size": 8, "optimizer": "adam", "precision": "fp32",
        "gpus": 1, "parallel": "none", "torch": "2.4.1", "seconds": 1.5,
    }  # fmt: skip
    return {**sound, **changes}


# ------------------------------------------------------------------ text


def test_guesses_are_lines_for_the_user_and_bounded() -> None:
    told = [f"a{n}: b\x1b[2J\nc" for n in range(100)] + ["x" * 9999]
    found = Traced.from_events(document(guesses=told, cuda="12.4"))
    assert len(found.guesses) == 12 and found.cuda == "12.4"
    assert all(line.isprintable() and len(line) <= 200 for line in found.guesses)
    assert Traced.from_text(found.to_text()) == found
    for odd in (None, {}, "x", [1, None, ["y"]]):
        assert Traced.from_events(document(guesses=odd)).guesses == ()
    long = Traced.from_events(document(guesses=["y" * 5000] * 12))
    assert Traced.from_text(long.to_text()) == long


@given(traces, st.text(max_size=200), st.text(max_size=50))
def test_text_and_back(traced: Traced, before: str, after: str) -> None:
    text = traced.to_text()
    assert Traced.from_text(text) == traced
    if HEADING not in before:
        assert Traced.from_text(f"{before}\n{text}\n===\n{after}") == traced


def test_the_last_of_two_counts() -> None:
    first, second = (Traced.from_events(document(batch_size=size)) for size in (8, 16))
    assert Traced.from_text(first.to_text() + "\n" + second.to_text()) == second


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace(HEADING, "something else"),
        lambda text: text.replace("version: 1", "version: 2"),
        lambda text: text.replace("reserves (MiB): ", "reserves (MiB): -"),
        lambda text: text.replace("reserves (MiB): ", "reserves (MiB): 9" + "9" * 20),
        lambda text: text.replace("GPUs: 1", "GPUs: 0"),
        lambda text: text.replace("seconds: 1.50", "seconds: nan"),
        lambda text: text[: len(text) // 2],
        lambda text: HEADING,
        lambda text: (HEADING + "\n") * 100_000,
    ],
)
def test_unsound_text_is_no_trace(damage: Any) -> None:
    assert Traced.from_text(damage(Traced.from_events(document()).to_text())) is None


def test_a_terminals_commands_do_not_come_through() -> None:
    text = Traced.from_events(document(torch="\x1b[31m2.4")).to_text()
    assert "\x1b" not in text
    found = Traced.from_text(text.replace("2.4", "\x1b[31m2.4"))
    assert "\x1b" not in found.torch


# ------------------------------------------------------------------ events


def test_a_replay_by_hand() -> None:
    events = [30 * MIB, 20 * MIB, -1, 12 * MIB, -2]
    replay = replayed(document(events=events, marks=[[0, "start"], [5, "end"]]))
    assert replay.peak_need == replay.peak_reserved == 50 * MIB
    assert replay.marks == (("start", 0, 0), ("end", 12 * MIB, 50 * MIB))
    traced = Traced.from_events(document(events=events))
    assert traced.need_mib == 50
    assert traced.reserved_mib == pytest.approx(50 * (1 + GROWTH))
    assert (traced.weights_mib, traced.gradients_mib, traced.optimizer_mib) == (3, 2, 1)
    assert traced.static_mib == 6 and traced.faketensor_mib == 5


def test_a_workspace_is_reserved_and_not_needed() -> None:
    row = [16, 64, 64, [32, 32], [32, 32], [3, 3], [1, 1], 1, 4, 0]
    replay = replayed(document(events=[20 * MIB], calls=[[1, 2, 0]], convolutions=[row]))
    tiles = 16 * 8 * 8 * 36 * 128 * 4
    assert replay.largest_workspace == tiles > 10 * MIB
    assert replay.peak_need == 20 * MIB
    assert replay.peak_reserved == 20 * MIB + -(-tiles // (2 * MIB)) * 2 * MIB


def test_each_thread_has_one_cublas_workspace() -> None:
    calls = [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    twice = 2 * overheads().cublas_bytes
    assert replayed(document(calls=calls)).peak_need == twice
    assert replayed(document(calls=calls), "NVIDIA H100 80GB HBM3").peak_need == 64 * MIB


def test_the_tracers_own_line_is_passed_on() -> None:
    with pytest.raises(BadFile, match="could not be traced: the factory is missing"):
        Traced.from_events({"version": 1, "error": "the factory is missing"})


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2}, {"events": None}, {"events": [0]}, {"events": [1.5]}, {"events": [True]},
        {"events": ["1"]}, {"events": [1 << 60]}, {"events": [-1]}, {"events": [512, -1, -1]},
        {"events": [512, -2]}, {"calls": [[0, 9, 0]]}, {"calls": [[0, 2, 0]]}, {"calls": [[0]]},
        {"calls": [[-1, 0, 0]]}, {"marks": [["a", 1]]}, {"marks": [1]}, {"convolutions": [[]]},
        {"convolutions": [[8, 64, 64, [], [32], [3], [1], 1, 4, 0]]},
        {"convolutions": [[8, 64, 64, [32], [32], [3], [1], 0, 4, 0]]},
        {"convolutions": [[1 << 40, 1 << 40, 64, [1 << 40], [32], [3], [1], 1, 4, 0]]},
        {"parameter_bytes": -1}, {"parameter_bytes": "1"}, {"batch_size": 1.5}, {"torch": 2},
        {"seconds": -1}, {"seconds": float("nan")}, {"seconds": None}, {"optimizer": None},
    ],
)  # fmt: skip
def test_unsound_documents_are_refused_in_one_line(changes: dict[str, Any]) -> None:
    with pytest.raises(BadFile) as refused:
        Traced.from_events(document(**changes))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("other", [None, [], 1, "text", {}])
def test_what_is_no_document(other: object) -> None:
    with pytest.raises(BadFile):
        Traced.from_events(other)


# ------------------------------------------------------------------ workspaces, overheads


def layer(**changes: Any) -> Convolution:
    usual: dict[str, Any] = {
        "batch": 4, "in_channels": 16, "out_channels": 32, "inputs": (8, 8), "outputs": (8, 8),
        "kernel": (3, 3),
    }  # fmt: skip
    return Convolution(**{**usual, **changes})


def test_winograds_transforms() -> None:
    """Two by two tiles of six by six values, for the channels read and those written."""
    assert workspace_bytes(layer(), Pass.FORWARD, overheads()) == 4 * 4 * 36 * (16 + 32) * 4


@pytest.mark.parametrize(
    "changes",
    [
        {"channels_last": True},
        {"kernel": (1, 1)},
        {"groups": 16, "out_channels": 16},
    ],
)
def test_what_needs_no_workspace(changes: dict[str, Any]) -> None:
    assert workspace_bytes(layer(**changes), Pass.FORWARD, overheads()) == 0


def test_a_gpu_without_tensor_cores_for_floats_needs_none() -> None:
    assert workspace_bytes(layer(), Pass.FORWARD, overheads("Tesla V100-SXM2-16GB")) == 0


@given(st.text(max_size=50) | st.none())
def test_every_kind_of_gpu_has_a_context(kind: str | None) -> None:
    assert context_mib(kind) > 0


# ------------------------------------------------------------------ trials of cudnn.benchmark


def pointwise(channels: int, outputs: int, side: tuple[int, int], batch: int = 8) -> Convolution:
    return Convolution(batch, channels, outputs, side, side, (1, 1))


@pytest.mark.parametrize(
    ("convolution", "before", "measured"),
    [  # MiB that were alive in the process before, and its most, by nvidia-smi (GPUMemNet's study)
        (pointwise(128, 257, (4, 256)), 2790, 19435),  # mobilevitv2_100
        (pointwise(160, 321, (4, 256)), 3067, 30137),  # mobilevitv2_125
        (pointwise(1536, 1536, (32, 32)), 7480, 27491),  # convmixer_1536_20
        (pointwise(128, 512, (112, 112), 16), 3248, 12273),  # coatnet_2_rw_224
    ],
)
def test_the_largest_plan_that_is_tried_is_what_was_measured(
    convolution: Convolution, before: float, measured: float
) -> None:
    assert before + trial_bytes(convolution) / MIB == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    "convolution",
    [
        replace(pointwise(64, 64, (56, 56)), element_bytes=2),
        replace(pointwise(64, 64, (56, 56)), channels_last=True),
        replace(pointwise(64, 64, (56, 56)), groups=64),
        pointwise(64, 64, (300, 300)),
        Convolution(8, 3, 768, (224, 224), (14, 14), (16, 16), (16, 16)),
    ],
)
def test_what_has_no_plan_by_transforms(convolution: Convolution) -> None:
    assert trial_bytes(convolution) == 0


def test_trials_are_counted_with_benchmark_only_and_as_far_as_the_gpu_has_room() -> None:
    row = [8, 128, 257, [4, 256], [4, 256], [1, 1], [1, 1], 1, 4, 0]
    called = document(events=[MIB, MIB, -1], convolutions=[row], calls=[[2, 2, 0], [3, 2, 0]])
    trial = trial_bytes(pointwise(128, 257, (4, 256))) / MIB + 2
    plain = Traced.from_events(called)
    tried = Traced.from_events({**called, "benchmark": True})
    small = Traced.from_events({**called, "benchmark": True, "gpu_mib": 16_000})
    assert (plain.trial_mib, small.trial_mib) == (0, 0) and tried.trial_mib == trial
    assert tried.reserved_mib == plain.reserved_mib and tried.map_mib > plain.map_mib == 0
    assert Traced.from_text(tried.to_text()).trial_mib == pytest.approx(trial, abs=0.01)
