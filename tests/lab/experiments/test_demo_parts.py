"""The demo's numbers, verdict and screen, from made-up runs."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from radrm.jobfile.radfile import read_job_file
from radrm.lab.experiments.demo.numbers import ROWS, Figures, Meter, figures, rows, verdict
from radrm.lab.experiments.demo.run import LIAR, MODELS, Scene
from radrm.lab.show.demo import comparison, live_view
from radrm.structs import replace

# ------------------------------------------------------------------ numbers


def device(uuid: str, smact: float | None, power_w: float | None) -> dict[str, Any]:
    return {"uuid": uuid, "smact": smact, "power_w": power_w}


def test_a_meter_integrates_between_readings() -> None:
    meter = Meter()
    meter.add(100, [device("a", 0.0, 50), device("b", 1.0, 200)])
    meter.add(110, [device("a", 0.5, 150), device("b", 1.0, 200)])
    meter.add(130, [device("a", 0.5, 150), device("b", 1.0, 200)])
    assert meter.energy_j == 10 * 100 + 20 * 150 + 30 * 200
    assert meter.activity == pytest.approx((10 * 0.25 + 20 * 0.5 + 30 * 1.0) / 60)


def test_what_was_not_measured_is_not_zero() -> None:
    meter = Meter()
    assert meter.activity is None
    meter.add(0, [device("a", 0.6, 100), device("b", None, 100)])
    meter.add(10, [device("a", 0.6, None), device("b", None, 100)])
    assert meter.activity == pytest.approx(0.6)
    assert meter.energy_j is None
    meter.add(20, [device("a", 0.6, 100), device("b", None, 100)])
    assert meter.energy_j is None


def explained(
    submitted: float, ended: float | None, *attempts: tuple[float, float | None], oom: int = 0
) -> dict[str, Any]:
    return {
        "now": 1000.0,
        "job": {
            "submitted_at": submitted,
            "ended_at": ended,
            "state": "RUNNING" if ended is None else "COMPLETED",
            "oom_count": oom,
        },
        "attempts": [{"launched_at": a, "ended_at": b} for a, b in attempts],
    }


def test_waiting_counts_the_recovery_queue() -> None:
    found = figures(
        [explained(0, 100, (10, 20), (50, 100), oom=1), explained(10, 300, (100, 300))], Meter()
    )
    assert (found.jobs, found.finished, found.oom) == (2, 2, 1)
    assert found.makespan_s == 300
    assert found.jct_s == (100 + 290) / 2
    assert found.wait_s == (40 + 90) / 2


def test_an_unfinished_run_counts_so_far_and_says_so() -> None:
    found = figures([explained(0, 100, (0, 100)), explained(0, None, (400, None))], Meter())
    assert (found.finished, found.makespan_s, found.wait_s) == (1, 1000, 200)
    assert not found.whole
    assert rows(found)[:2] == ["1 of 2", ">16m40s"]


RUN = Figures(12, 12, 1800, 400, 1200, 0.62, 1.5e6, 1)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"makespan_s": 2400, "activity": 0.45, "energy_j": 2e6}, "25% sooner, with the GPUs 62%"),
        ({"makespan_s": 2400, "activity": 0.45, "energy_j": 2e6}, "instead of 45%, for 25% less"),
        ({"makespan_s": 1500}, "Sharing ended the same jobs 20% later"),
        ({"energy_j": 1e6}, "for 50% more energy"),
        ({}, "jobs in the same time, with the GPUs 62% busy instead of 62%, for the same energy."),
        ({"energy_j": None, "activity": None, "makespan_s": 3600}, "the same jobs 50% sooner."),
        ({"finished": 9, "makespan_s": 2400}, "at least 25% sooner"),
        ({"finished": 9, "makespan_s": 1800}, "No verdict"),
    ],
)
def test_the_verdict_is_what_the_numbers_say(changed: dict[str, Any], said: str) -> None:
    assert said in verdict(RUN, replace(RUN, **changed))


def test_what_an_unfinished_run_cannot_tell_is_not_told() -> None:
    said = verdict(RUN, replace(RUN, finished=9, makespan_s=2400, energy_j=1e6))
    assert "at least 25% sooner" in said
    assert "energy" not in said


def test_no_verdict_on_sharing_that_did_not_finish() -> None:
    assert verdict(replace(RUN, finished=11), RUN) == "No verdict: sharing did not finish."


# ------------------------------------------------------------------ jobs


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_only_the_liar_lies(model: Any) -> None:
    read = read_job_file(model.job_file().encode(), f"{model.name}.rad", {})
    assert read.name == model.name
    assert (read.options.gpu_memory_mib == model.memory_mib) == (model.name != LIAR)


# ------------------------------------------------------------------ screen


def scene(title: str) -> Scene:
    """The widest that the demo can show: every state, long times, full devices."""
    states = ("PENDING", "LAUNCHING", "RUNNING", "RECOVERING", "COMPLETED", "CANCELLED")
    jobs = [
        {
            "id": number,
            "name": model.name,
            "state": states[number % len(states)],
            "devices": ["u0", "u3"],
            "attempts": 2,
            "estimate_mib": 24408,
            "submitted_at": 0.0,
            "started_at": 0.0,
            "ended_at": None,
        }
        for number, model in enumerate(MODELS, 1)
    ]
    devices = [
        {
            "uuid": f"u{index}",
            "index": index,
            "used_mib": 40000,
            "total_mib": 40960,
            "smact": 1.0,
            "jobs": [10, 11, 12],
        }
        for index in range(4)
    ]
    return Scene(title, jobs, devices, 3599.0)


def drawn(view: Any, width: int) -> list[str]:
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(view)
    return captured.get().splitlines()


def test_the_live_view_fits_a_small_terminal_and_keeps_its_width() -> None:
    lines = drawn(live_view([scene("sharing"), scene("exclusive")]), 80)
    assert len(lines) == 1 + 4 + 1 + 1 + len(MODELS)
    assert len(lines) < 24
    assert not any("…" in line for line in lines)
    assert all(model.name in line for model, line in zip(MODELS, lines[7:], strict=False))


def test_before_the_jobs_are_there_the_view_is_drawn_too() -> None:
    early = [replace(scene(title), jobs=[]) for title in ("sharing", "exclusive")]
    assert len(drawn(live_view(early), 80)) == 7
    late = [scene("sharing"), replace(scene("exclusive"), jobs=[])]
    assert len(drawn(live_view(late), 80)) == 7 + len(MODELS)


def test_the_table_has_a_line_for_each_number() -> None:
    lines = drawn(comparison({"sharing": RUN, "exclusive": replace(RUN, energy_j=None)}), 80)
    assert len(lines) == 1 + len(ROWS)
    assert [line.split()[-1] for line in lines[-2:]] == ["-", "1"]
