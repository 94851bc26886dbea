"""Ranges, sizes and tasks as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.cli.show.card import MOST_TASKS, card, tasks_table
from radrm.cli.show.jobs import job_rows
from radrm.client.words.jobs import requested_size, size_text
from tests.cli.fakes import ESC, NOW, job, shown


def role(name: str = "main", count: int | None = 2, **changed: Any) -> dict[str, Any]:
    document = {"name": name, "count": count, "min": 1, "max": 4}
    return document | {"gpus": 1, "cpus": None, "cpus_max": None} | changed


def elastic(state: str = "RUNNING", count: int | None = 2, **changed: Any) -> dict[str, Any]:
    roles = changed.pop("roles", [role(count=count)])
    size = {"gpus": count or 1, "gpus_min": 1, "gpus_max": 4, "roles": roles, "resizing": None}
    return job(5, state) | size | changed


PS = [role("ps", 1, gpus=0, cpus=4.0), role("worker", 3, max=8, gpus=0, cpus=2.0, cpus_max=8.0)]


@pytest.mark.parametrize(
    ("document", "size", "requested"),
    [
        (job(5, "RUNNING"), "", "1 GPU"),
        (job(5, gpus=3), "", "3 GPUs"),
        (elastic(), "2 of 1-4 GPUs", "1-4 GPUs"),
        (elastic("PENDING", None), "1-4 GPUs", "1-4 GPUs"),
        (
            elastic(resizing={"gpus": 3, "roles": {"main": 3}}),
            "2 of 1-4 GPUs, changing to 3",
            "1-4 GPUs",
        ),
        (
            elastic(roles=[role(cpus=4.0, cpus_max=16.0)]),
            "2 of 1-4 GPUs",
            "1-4 GPUs with 4-16 CPUs each",
        ),
        (
            elastic(roles=PS),
            "ps 1 of 1-4, worker 3 of 1-8",
            "ps 1-4 with 4 CPUs each, worker 1-8 with 2-8 CPUs each",
        ),
        (
            elastic(roles=PS, resizing={"gpus": 0, "roles": {"ps": 1, "worker": 5}}),
            "ps 1 of 1-4, worker 3 of 1-8, changing to ps 1, worker 5",
            "ps 1-4 with 4 CPUs each, worker 1-8 with 2-8 CPUs each",
        ),
    ],
)
def test_the_size_and_what_was_asked_for(document: Any, size: str, requested: str) -> None:
    assert size_text(document) == size
    assert requested_size(document) == requested


def test_a_row_says_how_many_of_its_gpus_a_job_has_and_how_far_it_is() -> None:
    it = elastic(progress={"work_done": 0.374})
    (_, row) = shown(job_rows([it], {"GPU-a": 0}), 200, terminal=False)
    assert row.endswith("2 of 1-4 GPUs, 37 %")
    ended = elastic("COMPLETED", None, progress={"work_done": 1.0})
    (_, row) = shown(job_rows([ended], {"GPU-a": 0}), 200, terminal=False)
    assert "GPUs" not in row


def test_a_card_has_size_tasks_and_the_failed_resize() -> None:
    tasks = [task(0), task(1, cpu_s=75.0, memory_mib=2048, exit_code=137)]
    it = elastic(memory_mib=8192, memory_max_mib=65_536, tasks=tasks, resize_error="no answer")
    text = "\n".join(shown(card(it, NOW, {"GPU-a": 0, "GPU-b": 3}), 120))
    assert "1-4 GPUs, 8.0G to 64.0G of host memory" in text
    assert "size        2 of 1-4 GPUs; not resized: no answer" in text
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "TASK GPU CPUS CPU TIME MEMORY EXIT CODE" in rows
    assert "main 0 0 4 - - -" in rows and "main 1 3 4 1m15s 2.0G 137" in rows


def task(number: int, **changed: Any) -> dict[str, Any]:
    document = {"role": "main", "task": number, "gpus": [f"GPU-{'ab'[number % 2]}"], "cpus": 4.0}
    return document | {"cpu_s": None, "memory_mib": None, "exit_code": None} | changed


def test_many_tasks_are_cut_and_hostile_names_stay_names() -> None:
    tasks = [task(number) | {"role": ESC} for number in range(MOST_TASKS + 8)]
    lines = shown(tasks_table(tasks, {}), 100)
    assert len(lines) == MOST_TASKS + 2 and lines[-1].startswith("and 8 more")
    assert all(line.isprintable() for line in lines)
    its = card(elastic(roles=[role(ESC), role("b")]), NOW, {})
    assert all(line.isprintable() for line in shown(its, 100))
