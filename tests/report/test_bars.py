"""Which part of its work a job has done, by the bars in its log."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from radrm.progress_bars import Epochs
from radrm.progress_lines import Finder, Lines


def tqdm(step: int, total: int, label: str = "", up: str = "") -> str:
    start = f"{label}: " if label else ""
    return f"\r{start}{100 * step // total:3d}%|##   | {step}/{total} [00:10<00:06, 6.1it/s]{up}"


def loop(total: int, label: str = "", up: str = "", end: int | None = None) -> str:
    """A bar from its first step to its last one, or to `end`."""
    steps = range((total if end is None else end) + 1)
    return "".join(tqdm(step, total, label, up) for step in steps) + "\n"


def keras(step: int, total: int) -> str:
    return f"\r{step}/{total} ━━━━ 3s 5ms/step - loss: 0.5"


def told(text: str | Iterable[str], finder: Finder | None = None) -> dict[str, float]:
    """The last value of each key; a total of 0 is none."""
    finder, lines, found = finder or Finder(None), Lines(), dict[str, float]()
    for line in lines.feed("".join(text).encode()):
        found.update(finder.find(line))
    found.update(finder.find(lines.rest()))
    return {key: number for key, number in found.items() if (key, number) != ("total", 0.0)}


def numbers(text: str) -> dict[str, float]:
    return {key: float(value) for key, value in (word.split("=") for word in text.split())}


CASES = {
    "one bar": (tqdm(62, 100), "step=62 total=100"),
    "a bar for each epoch": ([loop(100), loop(100), loop(100, end=70)], "step=270 epoch=3"),
    "a second epoch begins": ([loop(100), tqdm(0, 100)], "step=100 epoch=2"),
    "lines without a carriage return": (
        [loop(10).replace("\r", "\n"), tqdm(3, 10).replace("\r", "\n")],
        "step=13 epoch=2",
    ),
    "an epoch that is left early": ([tqdm(90, 100), tqdm(0, 100), tqdm(5, 100)], "step=95 epoch=2"),
    "keras": (
        ["Epoch 1/3\n", keras(1, 50), keras(50, 50), "\nEpoch 2/3\n", keras(25, 50)],
        "step=75 total=150 epoch=2 loss=0.5",
    ),
    "keras evaluates in between": (
        ["Epoch 1/3\n", keras(50, 50), "\n", keras(1, 10), keras(10, 10), "\n"],
        "step=50 total=150 epoch=1 loss=0.5",
    ),
    "keras evaluates as many": (
        ["Epoch 1/3\n", keras(50, 50), "\n", keras(1, 50), keras(30, 50)],
        "step=50 total=150 epoch=1 loss=0.5",
    ),
    "a line before each bar": (
        ["Epoch 1/3\n", loop(10), "Epoch 2/3\n", tqdm(5, 10)],
        "step=15 total=30 epoch=2",
    ),
    "a line after each bar": (
        [loop(10), "Epoch 1/3: loss=0.5\n", loop(10), "Epoch 2/3: loss=0.4\n", loop(10, end=5)],
        "step=25 total=30 epoch=3 loss=0.4",
    ),
    "another bar before the first line": (
        [loop(7), "Epoch 1/3\n", loop(10), "Epoch 2/3\n", tqdm(5, 10)],
        "step=15 total=30 epoch=2",
    ),
    "epochs from 0, of nobody knows how many": (
        ["Epoch 0/3\n", loop(10), "Epoch 1/3\n", tqdm(5, 10)],
        "step=15 epoch=1",
    ),
    "a line with the epoch alone": (["--- Epoch 4 ---\n", tqdm(5, 10)], "step=5 epoch=4"),
    "the epoch in the label": (
        [loop(30, "Epoch 1/4"), tqdm(15, 30, "Epoch 2/4")],
        "step=45 total=120 epoch=2",
    ),
    "lightning": (
        [loop(2, "Sanity Checking DataLoader 0"), tqdm(10, 100, "Epoch 0")],
        "step=10 epoch=0",
    ),
    "lightning validates": (
        [
            loop(100, "Epoch 0"),
            loop(20, "Validation DataLoader 0"),
            *(tqdm(100, 100, "Epoch 0"), tqdm(3, 100, "Epoch 1")),
            tqdm(15, 20, "Validation DataLoader 0"),
        ],
        "step=103 epoch=1",
    ),
    "hugging face": (
        [loop(4, "Loading checkpoint shards"), tqdm(500, 1500), loop(20, up="\x1b[A")],
        "step=500 total=1500",
    ),
    "hugging face without cursor movements": (
        [tqdm(500, 1500), loop(20), tqdm(501, 1500), loop(20)],
        "step=501 total=1500",
    ),
    "nested": (
        [tqdm(0, 10), loop(100, up="\x1b[A"), tqdm(1, 10), tqdm(50, 100, up="\x1b[A")],
        "step=1 total=10",
    ),
    "nested without cursor movements": (
        [tqdm(0, 10), loop(100), tqdm(1, 10), tqdm(50, 100)],
        "step=1 total=10",
    ),
    "within an outer loop of unknown length": (
        ["3it [00:10, 3.0s/it]\n", loop(50, up="\x1b[A"), tqdm(10, 50, up="\x1b[A")],
        "step=60 epoch=2",
    ),
    "validation bars without a label": (
        [loop(100), loop(20), loop(100), tqdm(7, 20)],
        "step=200 epoch=2",
    ),
    "validation bars with one": ([loop(100), tqdm(7, 20, "val")], "step=100 total=100"),
    "a bar of another kind after the first": ([loop(10), tqdm(30, 200)], "step=30"),
    "data are prepared first": ([loop(10, "Map"), tqdm(30, 200)], "step=30 total=200"),
    "steps of each epoch": (
        ["epoch 1 step 50/100\n", "epoch 1 step 100/100\n", "epoch 2 step 1/100\n"],
        "step=101 epoch=2",
    ),
    "steps beside a bar": ([tqdm(5, 10), "\nstep 700 loss 0.5\n"], "step=5 total=10 loss=0.5"),
    "several processes show one bar": (
        [tqdm(50, 100), tqdm(49, 100), tqdm(51, 100), tqdm(50, 100)],
        "step=50 total=100",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_bars_of_a_job_tell(name: str) -> None:
    text, expected = CASES[name]
    assert told(text) == numbers(expected)


def test_one_file_tells_the_epochs_of_the_bars_in_another() -> None:
    epochs = Epochs()
    out, err = Finder(None, epochs), Finder(None, epochs)
    told("Epoch 1/3\n", out)
    assert told(loop(10), err) == numbers("step=10 total=30 epoch=1")
    assert told(loop(10, end=5), err) == numbers("step=15 total=30 epoch=2")
    told("Epoch 2/3\n", out)
    assert told(tqdm(6, 10), err) == numbers("step=16 total=30 epoch=2")


def test_a_job_that_goes_on_from_a_later_epoch_says_nothing_of_the_whole() -> None:
    epochs = Epochs()
    out, err = Finder(None, epochs), Finder(None, epochs)
    told("Epoch 8/10\n", out)
    assert "total" not in told([loop(10), loop(10, end=5)], err)
