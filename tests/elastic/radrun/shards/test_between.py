"""Pauses that begin in a moment of their own: between two shards, and within another pause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from radrm.elastic.radrun.shards.service import Service
from radrm.elastic.radrun.shards.store import Store


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *words: self.heard.append(name)


def test_one_takes_a_shard_and_saves(tmp_path: Path) -> None:
    """Both ask for the next shard after the hold: neither has a step in which it could save."""
    listener = Listener()
    service = Service(Store(tmp_path), listener)
    tasks = [("worker", 0), ("worker", 1)]
    service.begin(1, tasks)
    answers: dict[tuple[str, int], list[dict[str, Any]]] = {task: [] for task in tasks}
    hello = {"do": "hello", "version": 1, "role": "worker", "generation": 1}
    members = {
        task: service.join({**hello, "task": task[1]}, answers[task].append) for task in tasks
    }
    opened = {"do": "open", "dataset": "train", "way": "shards", "batch": 4, "seed": 7}
    take = {"do": "take", "dataset": "train", "wait": True}
    for task in tasks:
        service.handle(members[task], {**opened, "samples": 100, "shard": 10, "epochs": 1})
        service.handle(members[task], take)
        assert "shard" in answers[task][-1]
        shard = answers[task][-1]["shard"]
        read = {"do": "step", "step": 1, "read": {"train": shard}, "seen": False, "ask": False}
        service.handle(members[task], read)
    service.stop_together()
    for task in tasks:
        service.handle(members[task], take)
    first, second = tasks
    assert "shard" in answers[first][-1], "one goes on"
    assert "shard" not in answers[second][-1]
    step = {"do": "step", "step": 2, "read": {}, "seen": True, "ask": False}
    service.handle(members[first], step)
    assert answers[first][-1].get("save") and "boundary" in listener.heard
    service.handle(members[first], {"do": "save"})
    identity = answers[first][-1]["write"]
    service.handle(members[first], {"do": "store", "id": identity})
    service.handle(members[first], {"do": "saved", "id": identity, "keep": [identity]})
    assert answers[first][-1].get("leave") and answers[second][-1] == {"leave": True}


def test_a_stop_within_a_save_comes_at_the_next_step(tmp_path: Path) -> None:
    """Else the workers leave at a boundary that nobody hears of, and the job counts as done."""
    listener, answers = Listener(), []
    service = Service(Store(tmp_path), listener)
    service.begin(1, [("main", 0)])
    hello = {"do": "hello", "version": 1, "role": "main", "generation": 1, "task": 0}
    member = service.join(hello, answers.append)

    def save() -> None:
        service.handle(member, {"do": "save"})
        identity = answers[-1]["write"]
        service.handle(member, {"do": "store", "id": identity})
        service.handle(member, {"do": "saved", "id": identity, "keep": [identity]})

    def step(number: int) -> None:
        said = {"do": "step", "step": number, "read": {}, "seen": True, "ask": False}
        service.handle(member, said)

    service.save()
    step(1)
    assert answers[-1].get("save") and "boundary" not in listener.heard
    service.stop_together()
    save()
    assert {"leave": False} in answers and "boundary" not in listener.heard
    step(2)
    assert answers[-1].get("save") and "boundary" in listener.heard
    save()
    assert answers[-1] == {"leave": True}
