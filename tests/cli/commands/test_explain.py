"""`radrm explain`: both numbers for every device, and what concerns none of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import radrm.cli.commands.status
from radrm.cli.show.card import explanation
from radrm.client.amounts import local_time
from radrm.client.words.reasons import amount
from tests.cli.fakes import NOW, Script, job, shown
from tests.cli.runner import invoke


def reason(rule: str | None, message: str | None = None, **changed: Any) -> dict[str, Any]:
    numbers = {"needed": None, "available": None, "unit": None}
    return {"rule": rule, "message": message, **numbers, **changed}


def device(index: int, rule: str | None = None, message: str | None = None, **changed: Any) -> Any:
    place = {"index": index, "uuid": f"GPU-{index}", "name": "A100-40GB"}
    return {**place, **reason(rule, message, **changed)}


def answer(it: dict[str, Any], **changed: Any) -> dict[str, Any]:
    empty = {"summary": None, "reasons": [], "devices": [], "ahead": None, "attempts": []}
    return {"job": it, "now": NOW, **empty, **changed}


FULL = {"needed": 32768.0, "available": 10240.0, "unit": "MiB"}


def test_gpus_of_one_reason_are_one_line() -> None:
    full = "10.0G free, job 1 (ann) reserves 30.0G"
    lines = shown(
        explanation(
            answer(
                job(5),
                summary="GPU 0: too little memory (and 1 more GPU)",
                reasons=[reason("beds", "not enough", needed=2, available=1, unit="GPUs")],
                devices=[
                    device(0, "memory", full, **FULL),
                    device(1, "smact", "too busy", needed=0.8, available=0.91234),
                    *(device(index, "memory", full, **FULL) for index in (2, 3, 4)),
                    device(5),
                ],
                ahead=0,
            )
        ),
        100,
    )
    assert lines[:4] == [
        "Job 5  resnet50  PENDING for 1m40s",
        "  GPU 0: too little memory (and 1 more GPU)",
        "  not enough (needs 2 GPUs, 1 GPU available)",
        "  It is first in the queue.",
    ]
    assert lines[5:9] == [
        "  GPU 0, 2-4: 10.0G free, job 1 (ann) reserves 30.0G",
        "  GPU 1: too busy",
        "  GPU 5: could take it",
        "",
    ]


def test_gpus_of_several_kinds_are_named() -> None:
    kinds = [device(0, "memory", "1.0G free"), {**device(1, "memory", "1.0G free"), "name": "T4"}]
    lines = shown(explanation(answer(job(5), devices=kinds)))
    assert "  GPU 0 (A100-40GB): 1.0G free" in lines and "  GPU 1 (T4): 1.0G free" in lines


def test_a_reason_that_has_both_numbers_is_not_said_twice() -> None:
    why = "needs 2 CPUs, 0.5 free"
    cpus = reason("cpus", why, needed=2.0, available=0.5)
    lines = shown(explanation(answer(job(5), summary=why, reasons=[cpus], ahead=1)))
    assert lines[1:3] == [f"  {why}", "  1 job is before it."]
    behind = answer(job(5), summary="job 4 is served first", reasons=[cpus], ahead=1)
    assert shown(explanation(behind))[2] == f"  {why}"


def test_what_concerns_no_device_comes_first_and_alone() -> None:
    held = answer(
        job(5, held=True),
        summary="it is held",
        reasons=[reason("held", "it is held")],
        devices=[device(0), device(1)],
        ahead=3,
    )
    lines = shown(explanation(held))
    assert lines[1:3] == ["  it is held", "  3 jobs are before it."]
    assert not any("A100" in line for line in lines), "devices that would take it say nothing"
    assert lines[-1] == "  next: radrm release 5"


def test_a_free_device_is_shown_when_nothing_else_is_in_the_way() -> None:
    lines = shown(explanation(answer(job(5), devices=[device(0)], ahead=1)))
    assert "  1 job is before it." in lines
    assert any("could take it" in line for line in lines)


def test_where_it_ran_and_what_came_of_each_attempt() -> None:
    attempts = [
        {"number": 1, "outcome": "oom", "devices": [1], "exit_code": 1, "reason": None,
         "collocation": "mps", "started_at": NOW - 90, "ended_at": NOW - 80, "ran_s": 10.0,
         "reserved_mib": 6144, "peak_mib": 5000, "smact": 0.1, "energy_j": 500},
        {"number": 2, "outcome": None, "devices": [0, 1], "exit_code": None, "reason": None,
         "collocation": "exclusive", "started_at": None, "ended_at": None, "ran_s": None,
         "reserved_mib": None, "peak_mib": None, "smact": None, "energy_j": None},
    ]  # fmt: skip
    it = job(5, "LAUNCHING", attempts=2, devices=["GPU-x", "GPU-y"])
    lines = shown(explanation(answer(it, attempts=attempts)), 120)
    assert lines[0] == "Job 5  resnet50  LAUNCHING for 1m00s on GPU 0,1"
    assert " ".join(lines[3].split()) == "1 oom 1 mps 10s 6.0G 4.9G 0.10 500 J exit code 1"
    assert " ".join(lines[4].split()) == "2 launching 0,1 exclusive - - - - -"


def test_planners_are_named_where_they_decided() -> None:
    live = {"number": 2, "devices": [0], "collocation": "mps", "planner": "andreas",
            "requested": {"kind": "a resize", "planner": "elastic"}}  # fmt: skip
    ended = {**live, "number": 1, "planner": "strict", "ended_at": NOW, "reason": "exit code 1"}
    it = job(5, "RUNNING", attempts=2, devices=["GPU-x"])
    lines = shown(explanation(answer(it, attempts=[ended, live])), 160)
    assert "PLANNER" in lines[2] and "strict" in lines[3] and "andreas" in lines[4]
    assert lines[3].endswith("exit code 1")
    assert lines[4].endswith("the planner elastic asked for a resize")
    waits = answer(
        job(5),
        reasons=[reason("budget", "its budget is spent", planner="andreas")],
        devices=[device(0, "memory", "too little", planner="strict")],
    )
    text = "\n".join(shown(explanation(waits), 120))
    assert "andreas: its budget is spent" in text and "strict: too little" in text


def test_guesses_behind_the_estimate_are_named() -> None:
    it = job(5, estimate_source="trace", estimate_guesses=["optimizer: adam, as none is named"])
    text = "\n".join(shown(explanation(answer(it)), 120))
    assert "estimate: 6.0G per GPU (from trace)" in text
    assert "assumed: optimizer: adam, as none is named" in text


def test_one_that_never_started() -> None:
    it = job(5, "CANCELLED", reason="cancelled by ada")
    lines = shown(explanation(answer(it, summary="cancelled by ada")))
    assert lines[1:3] == ["  cancelled by ada", "  It never started."]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "MiB", "-"),
        (32768.0, "MiB", "32.0G"),
        (90.0, "s", "1m30s"),
        (0.81, None, "0.81"),
        (2.0, "GPUs", "2 GPUs"),
    ],
)
def test_amounts(value: float | None, unit: str | None, text: str) -> None:
    assert amount(value, unit) == text


def test_programs_get_the_daemons_document(monkeypatch: pytest.MonkeyPatch) -> None:
    document = answer(job(5))
    client = Script(explain=[document])
    monkeypatch.setattr(radrm.cli.commands.status, "ReadingClient", lambda: client)
    done = invoke("explain", "sweep", "--json")
    assert json.loads(done.stdout) == document
    assert client.asked == [("explain", {"jobs": ["sweep"]})]


def test_what_is_reserved_for_a_waiting_job_is_shown() -> None:
    later = {"kind": "backfill", "owner": "job 5", "index": 1, "reserved_mib": 38 * 1024}
    later |= {"start_at": NOW + 60, "end_at": NOW + 120}
    text = "\n".join(shown(explanation(answer(job(5), reservations=[later])), 200))
    start, end = local_time(NOW + 60), local_time(NOW + 120)
    assert f"GPU 1 reserved: 38.0G for job 5, {start} to {end} (backfill)" in text
