"""What launchers say about their tasks: nothing that is wrong is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radrm.core.records import Placement, Share
from radrm.core.words import Collocation
from radrm.host.attempts.elastic import exits, names
from radrm.host.attempts.elastic.answers import read_answer

TARGET = Placement(
    (Share("GPU-0"), Share("GPU-1", task=1), Share("GPU-2", task=1)), Collocation.EXCLUSIVE
)
TASKS = [["main", 0], ["main", 1]]


def answer(**fields: Any) -> str | None:
    return read_answer(json.dumps({"version": 1, "generation": 3, **fields}), 3, TARGET).failed


def test_the_tasks_of_the_target_in_any_order() -> None:
    assert answer(tasks=TASKS) is None
    assert answer(tasks=TASKS[::-1]) is None


WRONG = [
    ({"generation": 2, "tasks": TASKS}, "is about another generation"),
    ({"generation": True, "tasks": TASKS}, "is about another generation"),
    ({"tasks": TASKS[:1]}, "names 1 tasks that are not the 2 of the placement"),
    ({"tasks": [*TASKS, ["main", 2]]}, "names 3 tasks"),
    ({"tasks": [*TASKS, ["main", 1]]}, "names 3 tasks"),
    ({"tasks": [["main", 0], ["ps", 1]]}, "names 2 tasks"),
    ({"tasks": [["main", 0], ["main", 1.0]]}, "names 2 tasks"),
    ({"tasks": [["main", 0], ["main", True]]}, "names 2 tasks"),
    ({"tasks": [["main", 0], [["main"], 1]]}, "names 2 tasks"),
    ({"tasks": ["ab", "cd"]}, "names 2 tasks"),
    ({"tasks": {"main": 2}}, "names no tasks"),
    ({"tasks": [["main", 0]] * 300}, "names no tasks"),
    ({}, "names no tasks"),
    ({"failed": 1, "tasks": TASKS}, "'failed' is not a text"),
    ({"version": 2, "tasks": TASKS}, "it has not version 1"),
]


@pytest.mark.parametrize(("fields", "why"), WRONG)
def test_a_wrong_answer_is_a_failure(fields: dict[str, Any], why: str) -> None:
    failed = answer(**fields)
    assert failed.startswith("radrun's answer resized-3.json ")
    assert why in failed


def test_a_failure_says_why_in_one_plain_line() -> None:
    assert answer(failed="no room") == "radrun: no room"
    assert answer(failed="a\x1b[2J\nb" + 500 * "x") == "radrun: a\ufffd[2J\ufffdb" + 193 * "x"
    assert answer(failed="") == "radrun: no reason"


@pytest.mark.parametrize("text", ["", "{", "null", "[" * 100_000, '{"version": 1'])
def test_a_torn_answer_is_a_failure(text: str) -> None:
    assert "is not usable" in (read_answer(text, 3, TARGET).failed or "")


# ------------------------------------------------------------------ exits


def task(**changes: Any) -> dict[str, Any]:
    its = {"role": "main", "task": 0, "pid": 7, "start_ticks": 9, "code": 0, "signal": None}
    return {**its, "host_oom": False, **changes}


def of(*tasks: object, **fields: Any) -> list[list[object]] | None:
    return exits.parse(
        json.dumps({"version": 1, "generation": 2, "tasks": tasks, **fields}).encode()
    )


def test_the_exits_of_tasks() -> None:
    found = of(task(), task(task=1, code=None, signal=9, host_oom=True))
    assert found == [["main", 0, 0, None, False], ["main", 1, None, 9, True]]
    assert of() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": ""},
        {"role": 4},
        {"role": "x" * 65},
        {"task": -1},
        {"task": 256},
        {"task": True},
        {"code": 256},
        {"code": "0"},
        {"code": True},
        {"signal": 0},
        {"signal": 65},
        {"host_oom": 1},
    ],
)
def test_of_a_file_with_a_mistake_nothing_counts(wrong: dict[str, Any]) -> None:
    assert of(task(), task(**{"task": 1, **wrong})) is None


def test_a_file_that_is_not_of_tasks() -> None:
    assert of(7) is None
    assert of({"role": "main", "task": 0, "host_oom": False}) is None, "no code and no signal"
    assert of(*[task()] * (names.MOST_TASKS + 1)) is None
    assert of(task(), version=2) is None
    assert exits.parse(b"") is None
    assert exits.parse(b'{"version": 1, "tasks": {}}') is None
