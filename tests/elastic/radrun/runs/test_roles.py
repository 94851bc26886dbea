"""Jobs with parameter servers and workers, which read shards without waiting for each other."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.elastic.radrun.runs.place import Place
from tests.waiting import wait_until

WORKER = """
import json, os, sys, time
from radrm import elastic

def note(name, **fields):
    line = json.dumps({"pid": os.getpid(), "radrun": os.getppid(), "role": os.environ["RADRM_ROLE"],
                       "task": int(os.environ["RADRM_TASK"]), "rank": int(os.environ["ROLE_RANK"]),
                       "generation": int(os.environ["RADRM_GENERATION"]), **fields}) + "\\n"
    fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode())
    os.close(fd)

data = elastic.ShardedDataset(range(int(sys.argv[1])), epochs=1, shard=32, seed=7)
elastic.load()
note("begun", peers=json.loads(os.environ["RADRM_PEERS"]), tf=os.environ["TF_CONFIG"], step=0)
for numbers in elastic.loader(data, batch=8):
    time.sleep(0.1 if os.path.exists("slow") else 0.005)
    note("steps", samples=numbers, step=0)
    if elastic.step():
        elastic.save({})
        note("saved", step=0)
note("ended", step=0)
"""

SERVER = """
import json, os, signal, sys, time
from radrm import elastic
if os.path.exists("hook"):
    elastic.on_load(lambda state, number, count: None)
elastic.load()
with open("servers", "a") as file:
    file.write(json.dumps([os.getpid(), int(os.environ["ROLE_WORLD_SIZE"])]) + "\\n")
while True:
    time.sleep(0.1)
"""


@pytest.fixture
def job(place: Place) -> Place:
    place.write("worker.py", WORKER)
    place.write("ps.py", SERVER)
    put(place, 1, servers=1, workers=2)
    return place


def put(place: Place, number: int, servers: int, workers: int) -> None:
    tasks: list[dict[str, Any]] = [{"role": "ps", "task": n, "cpus": 1} for n in range(servers)]
    tasks += [{"role": "worker", "task": n, "cpus": 1} for n in range(workers)]
    place.write_placement(number, tasks)


def run(place: Place, samples: int) -> None:
    place.start("--role=ps=ps.py", "--role=worker=worker.py", "--", str(samples))


def servers(place: Place) -> list[Any]:
    path = place.folder / "servers"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_job_is_over_when_its_workers_are(job: Place) -> None:
    run(job, 400)
    assert job.wait() == 0, job.said()
    samples = [each for note in job.notes("steps") for each in note["samples"]]
    assert sorted(samples) == list(range(400))
    first = job.notes("begun")[0]
    assert {role: len(peers) for role, peers in first["peers"].items()} == {"ps": 1, "worker": 2}
    exits = {(each["role"], each["task"]): each for each in job.tasks()["tasks"]}
    assert exits["worker", 0]["code"] == 0 and exits["ps", 0]["signal"] == signal.SIGTERM


def test_a_dead_worker_is_started_again_alone(job: Place) -> None:
    run(job, 1200)
    wait_until(lambda: len(job.notes("steps")) > 10 and len(job.notes("begun")) == 2, job.said())
    victim = next(note["pid"] for note in job.notes("begun") if note["task"] == 1)
    os.kill(victim, signal.SIGKILL)
    assert job.wait() == 0, job.said()
    assert "task 1 (worker)" in job.said() and "it starts again (restart 1 of 3)" in job.said()
    begun = [(note["task"], note["generation"]) for note in job.notes("begun")]
    assert sorted(begun) == [(0, 1), (1, 1), (1, 1)], "the other went on"
    assert len(servers(job)) == 1
    samples = [each for note in job.notes("steps") for each in note["samples"]]
    assert set(samples) == set(range(1200))
    # Steps that the dead worker had not yet told of may be done again: at most its last shard.
    assert len(samples) - 1200 <= 32


def test_a_dead_server_brings_all_back_to_the_last_checkpoint(job: Place) -> None:
    run(job, 800)
    wait_until(lambda: len(job.notes("steps")) > 10 and servers(job), job.said())
    os.kill(servers(job)[0][0], signal.SIGKILL)
    assert job.wait() == 0, job.said()
    assert "task 0 (ps)" in job.said() and "from the last checkpoint" in job.said()
    last = [n for n in job.notes("steps") if n["generation"] == 2]
    assert sorted(each for note in last for each in note["samples"]) == list(range(800))


def test_the_number_of_servers_changes_only_with_a_load_hook(job: Place) -> None:
    job.write("slow")  # until `wait`: it must live through both answers
    run(job, 1600)
    wait_until(lambda: len(job.notes("steps")) > 5 and servers(job), job.said())
    put(job, 2, servers=2, workers=2)
    assert job.wait_answer(2)["failed"].startswith("role ps has no load hook")
    put(job, 3, servers=1, workers=3)
    assert "tasks" in job.wait_answer(3)
    assert job.wait() == 0, job.said()
    samples = [each for note in job.notes("steps") for each in note["samples"]]
    assert sorted(samples) == list(range(1600))


def test_with_a_load_hook_servers_are_added(job: Place) -> None:
    job.write("hook")
    job.write("slow")
    run(job, 1600)
    wait_until(lambda: len(job.notes("steps")) > 5 and servers(job), job.said())
    put(job, 2, servers=2, workers=1)
    assert "tasks" in job.wait_answer(2)
    assert job.wait() == 0, job.said()
    assert [count for _, count in servers(job)] == [1, 2, 2]
    samples = [each for note in job.notes("steps") for each in note["samples"]]
    assert sorted(samples) == list(range(1600))
