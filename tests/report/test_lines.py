"""The progress that lines of logs tell."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.progress_lines import Finder, Lines, compiled, progress_pattern

USUAL = [
    # tqdm
    (" 62%|██████▏   | 62/100 [00:10<00:06, 6.1it/s, loss=0.31]", "step=62 total=100 loss=0.31"),
    ("train:   5%|5         | 1.5k/30k [00:10<00:06, 6.1it/s]", "step=1500 total=30000"),
    ("Epoch 2/4:  50%|#####     | 15/30 [00:10<00:06]", "step=45 total=120 epoch=2"),
    ("100%|##########| 10/10 [00:01<00:00]", "step=10 total=10"),
    # the Hugging Face Trainer
    (
        "{'loss': 0.31, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.5}",
        "loss=0.31 epoch=0.5",
    ),
    ("{'eval_loss': 0.5, 'epoch': 1.0}", "epoch=1"),
    # name=value
    ("step=120 total=1000 loss=3.1e-1", "step=120 total=1000 loss=0.31"),
    ("step 5/10 loss 0.4", "step=5 total=10 loss=0.4"),
    ("Step: 10, Loss: -2.5", "step=10 loss=-2.5"),
    # Megatron
    ("iteration        5/     300 | lm loss: 5.0E+00 |", "step=5 total=300 loss=5"),
    ("iter 7 | loss 1.25", "step=7 loss=1.25"),
    (
        "global_step=3 max_steps=9 train_loss=.5 work_done=0.3",
        "step=3 total=9 loss=0.5 work_done=0.3",
    ),
    ("Epoch: 3", "epoch=3"),
    # nothing
    ("loss: nan", ""),
    ("val_loss=3 backstep=4", ""),
    ("copied 3/4 files", ""),
    ("", ""),
]


def numbers(text: str) -> dict[str, float]:
    pairs = (word.split("=") for word in text.split())
    return {key: float(value) for key, value in pairs}


@pytest.mark.parametrize(("line", "told"), USUAL)
def test_usual_forms(line: str, told: str) -> None:
    assert Finder(None).find(line) == numbers(told)


@pytest.mark.parametrize(
    "bar",
    [
        "62/100 ━━━━━━━━━━━━━━━━━━━━ 3s 5ms/step - loss: 0.31",
        "\x1b[1m62/100\x1b[0m \x1b[32m━━━━━━\x1b[0m\x1b[37m━━━━\x1b[0m \x1b[1m3s\x1b[0m 5ms/step - "
        "loss: 0.31",
        " 62/100 [==>..] - ETA: 3s - loss: 0.31",
    ],
)
def test_keras_counts_the_steps_of_each_epoch(bar: str) -> None:
    finder = Finder(None)
    assert finder.find(bar) == numbers("step=62 total=100 loss=0.31")
    assert finder.find("Epoch 3/10") == {"epoch": 3}
    assert finder.find(bar) == numbers("step=262 total=1000 epoch=3 loss=0.31")


def test_a_pattern_of_the_users_own() -> None:
    finder = Finder(progress_pattern(r"it (?P<step>\d+) of (?P<total>\d+)(?: L=(?P<loss>\S+))?"))
    assert finder.find("it 3 of 9 L=0.5") == numbers("step=3 total=9 loss=0.5")
    assert finder.find("it 3 of 9") == numbers("step=3 total=9")
    assert finder.find("it 3 of 9 L=nan") == numbers("step=3 total=9")
    assert finder.find("it 3 of 9 L=low") == numbers("step=3 total=9")
    assert finder.find("nothing") == {}


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?P<step>", "no regular expression"),
        ("(?P\x7f<step>x)", "unknown extension ?P\ufffd at"),
        (f"(?P={'a' * 900})", "no regular expression: unknown group name 'aaa"),
        ("(" * 900, "no regular expression"),
        ("a{99999999999}", "no regular expression"),
        ("x" * 2000, "more than 1024 characters"),
        (r"(?i)(?P<step>[\x00-\U0010ffff])", "ASCII"),
        (r"step (\d+)", "no group"),
        (r"(?P<steps>\d+)", "one of the names step, total"),
    ],
)
def test_a_wrong_pattern_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)) as told:
        progress_pattern(pattern)
    assert len(str(told.value)) < 400


def test_a_pattern_that_python_warns_of_is_compiled_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled("[[a](?P<step>1)").search("a1")


def test_auto_is_no_pattern() -> None:
    assert progress_pattern("auto") is None
    assert compiled("auto").search("auto")


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", "é".encode()[:1], "é".encode()[1:], b"\xff"])))
def test_pieces_of_any_size_give_the_same_lines(pieces: list[bytes]) -> None:
    lines, whole = Lines(), Lines()
    split = [line for piece in pieces for line in lines.feed(piece)]
    assert split == list(whole.feed(b"".join(pieces)))
    assert lines.rest() == whole.rest()


def test_a_line_without_end_takes_bounded_memory() -> None:
    lines = Lines()
    for _ in range(100):
        assert not list(lines.feed(b"x" * 10_000))
    assert len(lines.rest()) <= 16 * 1024
