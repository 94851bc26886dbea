"""`elastic.py` in real processes, through the real socket."""

from __future__ import annotations

import json
import pickle
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.elastic.radrun.shards.farm import Farm, Task
from tests.waiting import PATIENCE_S, wait_until

PROGRAMS = Path(__file__).parent / "programs"
LOCKSTEP, SERVERS = PROGRAMS / "lockstep.py", PROGRAMS / "servers.py"


def mains(count: int) -> list[Task]:
    return [("main", i) for i in range(count)]


def each_once(seen: list[int], samples: int, epochs: int) -> bool:
    return Counter(seen) == Counter(dict.fromkeys(range(samples), epochs))


def asking(batch: int = 32, samples: int = 1000, epochs: int = 2, **more: Any) -> str:
    return json.dumps(
        {
            "samples": samples,
            "data": {"epochs": epochs, "shard": 16, "seed": 3},
            "loader": {"global_batch": batch},
            **more,
        }
    )


def output(farm: Farm, task: Task) -> Any:
    out, errors = farm.workers[task].communicate(timeout=3 * PATIENCE_S)
    assert farm.workers[task].returncode == 0, errors
    return json.loads(out)


def saved(farm: Farm) -> tuple[int, Any]:
    """The step and the model of the last checkpoint."""
    path = max(farm.checkpoints.glob("elastic-*"))
    step, identity = farm.heard.of("saved")[-1]
    assert path.name == f"elastic-{identity}"
    return step, pickle.loads(path.read_bytes())


def stop(farm: Farm) -> int:
    """Stop the generation together; return the step."""
    before = len(farm.heard.of("boundary"))
    farm.call(farm.hub.stop_together)
    wait_until(lambda: len(farm.heard.of("boundary")) > before, "the boundary")
    assert set(farm.wait().values()) == {0}
    return int(farm.heard.of("boundary")[-1][0])


def reached(farm: Farm, step: int) -> None:
    wait_until(lambda: any(e[0] >= step for e in farm.heard.of("progress")), f"step {step}")


@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_training_at_one_size(farm: Farm, world: int) -> None:
    farm.begin(mains(world), LOCKSTEP, asking(batch=300, samples=601))
    found = [output(farm, task)["seen"] for task in mains(world)]
    assert each_once(found[0], 601, 2)
    assert all(each == found[0] for each in found)
    assert saved(farm) == (6, {"seen": found[0], "weights": 0.0})  # three rounds an epoch
    assert farm.heard.of("progress")[-1][:2] == (6, 6.0)


def test_the_order_of_samples_is_the_same_at_every_size(farm: Farm) -> None:
    orders = []
    for world in (1, 3):
        farm.begin(mains(world), LOCKSTEP, asking(batch=7, samples=50))
        orders.append(output(farm, ("main", 0))["seen"])
        for path in farm.checkpoints.glob("elastic-*"):
            path.unlink()
        farm.wait()
    assert orders[0] == orders[1]
    assert orders[0] != sorted(orders[0])


def test_resizes_lose_and_repeat_nothing(farm: Farm) -> None:
    """One worker, three, two, one: all stop at one step, and the next go on from it."""
    step = 0
    for world in (1, 3, 2):
        farm.begin(mains(world), LOCKSTEP, asking(pace_s=0.002))
        reached(farm, step + 1)
        before, step = step, stop(farm)
        assert step > before
        assert saved(farm)[0] == step
        assert len(saved(farm)[1]["seen"]) == len(set(saved(farm)[1]["seen"])) or step > 32
    farm.begin(mains(1), LOCKSTEP, asking())
    assert each_once(output(farm, ("main", 0))["seen"], 1000, 2)
    assert len(list((farm.checkpoints / "shards").iterdir())) == 2
    assert not farm.heard.of("broken")


def read_until(step: int) -> int:
    """The samples of so many steps: an epoch of 1000 has a short one at its end."""
    epochs, steps = divmod(step, 32)
    return epochs * 1000 + steps * 32


def test_a_killed_worker_takes_back_to_the_last_checkpoint(farm: Farm) -> None:
    farm.begin(mains(2), LOCKSTEP, asking(pace_s=0.002))
    reached(farm, 1)
    farm.call(farm.hub.save)
    wait_until(lambda: farm.heard.of("saved"), "a checkpoint")
    farm.workers["main", 1].send_signal(signal.SIGKILL)
    farm.wait()
    wait_until(lambda: len(farm.heard.of("lost")) == 2)
    step, model = saved(farm)
    farm.begin(mains(3), LOCKSTEP, asking())
    found = output(farm, ("main", 0))
    assert found["start"] == len(model["seen"]) == read_until(step)
    assert each_once(found["seen"], 1000, 2)


@pytest.mark.parametrize("where", ["_write", "_put"])
def test_a_kill_within_a_save_leaves_the_checkpoint_before(farm: Farm, where: str) -> None:
    """Before the state of the shards is stored, and between that and the checkpoint's name."""
    farm.begin(mains(2), LOCKSTEP, asking(every_s=0.0, dies_in=where))
    farm.wait()
    step, model = saved(farm)
    states = list((farm.checkpoints / "shards").glob("state-*.json"))
    assert len(states) == (2 if where == "_put" else 1)
    wait_until(lambda: len(farm.heard.of("lost")) == 2)
    farm.begin(mains(1), LOCKSTEP, asking())
    found = output(farm, ("main", 0))
    assert found["start"] == len(model["seen"]) == read_until(step)
    assert each_once(found["seen"], 1000, 2)
    names = sorted(path.name for path in farm.checkpoints.iterdir() if path.is_file())
    assert len(names) == 2 and not [name for name in names if name.startswith(".")]


@pytest.mark.parametrize("torn", ["state", "model"])
def test_a_torn_checkpoint_is_left_out(farm: Farm, torn: str) -> None:
    farm.begin(mains(1), LOCKSTEP, asking(every_s=0.0))
    output(farm, ("main", 0))
    newest = max(farm.checkpoints.glob("elastic-*"))
    identity = newest.name[len("elastic-") :]
    path = newest if torn == "model" else farm.checkpoints / "shards" / f"state-{identity}.json"
    path.write_bytes(path.read_bytes()[:-30])
    farm.begin(mains(2), LOCKSTEP, asking())
    found = output(farm, ("main", 0))
    assert 0 < found["start"] < 2000
    assert each_once(found["seen"], 1000, 2)


def test_three_failures_of_one_round_end_the_job(farm: Farm) -> None:
    for failed in range(3):
        assert not farm.heard.of("broken")
        farm.begin(mains(2), LOCKSTEP, asking(dies_at=3, who="1"))
        farm.wait()
        both = 2 * (failed + 1)
        wait_until(lambda both=both: len(farm.heard.of("lost")) == both)
    wait_until(lambda: farm.heard.of("broken"))
    [(reason,)] = farm.heard.of("broken")
    assert reason.startswith("round 2 of train (samples 64..95 of epoch 0) failed 3 times")


def test_saves_from_time_to_time(farm: Farm) -> None:
    farm.begin(mains(2), LOCKSTEP, asking(every_s=0.0))
    assert each_once(output(farm, ("main", 0))["seen"], 1000, 2)
    assert len(farm.heard.of("saved")) > 2


def test_a_rank_without_a_sample_takes_part(farm: Farm) -> None:
    farm.begin(mains(3), LOCKSTEP, asking(batch=4, samples=5, epochs=3))
    assert each_once(output(farm, ("main", 2))["seen"], 5, 3)


def test_micro_batches(farm: Farm) -> None:
    asked = asking(batch=11, samples=40, loader={"global_batch": 11, "micro_batch": 2})
    farm.begin(mains(2), LOCKSTEP, asked)
    assert each_once(output(farm, ("main", 0))["seen"], 40, 2)
    assert saved(farm)[0] == 8


def test_a_radrun_that_dies_with_all_its_workers(farm: Farm) -> None:
    farm.begin(mains(2), LOCKSTEP, asking(pace_s=0.002, every_s=0.02))
    wait_until(lambda: len(farm.heard.of("saved")) > 2, "some checkpoints")
    for process in farm.workers.values():
        process.kill()
    farm.restart_hub()
    farm.wait()
    farm.begin(mains(1), LOCKSTEP, asking())
    found = output(farm, ("main", 0))
    assert found["start"] > 0 and each_once(found["seen"], 1000, 2)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))]
)
def test_whatever_happens_each_sample_is_in_the_model_once(farm: Farm, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(6):
        farm.heard.events.clear()
        farm.begin(mains(chance.randint(1, 3)), LOCKSTEP, asking(every_s=0.05, pace_s=0.004))
        wait_until(lambda: farm.heard.of("progress") or farm.ended(("main", 0)), "a step")
        time.sleep(chance.random() * 0.15)
        what = chance.choice(["stop", "save", "kill", "kill all"])
        if what == "stop":
            farm.call(farm.hub.stop_together)
        elif what == "save":
            farm.call(farm.hub.save)
        elif what == "kill":
            chance.choice(list(farm.workers.values())).kill()
            wait_until(lambda: farm.heard.of("lost"), "the death")
        else:
            farm.end()
            farm.restart_hub()
        if what in ("save", "kill"):  # radrun ends the others of a synchronous job
            time.sleep(chance.random() * 0.05)
            farm.call(farm.hub.halt)
            farm.end()
        farm.wait()
        assert not farm.heard.of("broken")
    farm.begin(mains(2), LOCKSTEP, asking())
    assert each_once(output(farm, ("main", 0))["seen"], 1000, 2)


# -------------------------------------------------------------------- asynchronous


LONG = 6000
"""Samples that last until a stop has reached the workers, also on a busy machine."""


def team(workers: int) -> list[Task]:
    return [("ps", 0), *(("worker", i) for i in range(workers))]


def leasing(samples: int = 600, **more: Any) -> str:
    loader = {"batch": 8}
    data = {"epochs": 2, "shard": 32, "seed": 5}
    return json.dumps({"samples": samples, "data": data, "loader": loader, **more})


def test_parameter_servers(farm: Farm) -> None:
    farm.begin(team(3), SERVERS, leasing())
    found = [output(farm, ("worker", i)) for i in range(3)]
    assert sum(each["mine"] for each in found) == 1200
    assert each_once(saved(farm)[1], 600, 2)
    assert farm.hub.hooks == {"ps"}


def test_a_dead_asynchronous_worker_is_started_again(farm: Farm) -> None:
    farm.begin(team(2), SERVERS, leasing(dies_after=100, who="1", pace_s=0.001))
    wait_until(lambda: farm.heard.of("lost"), "the death")
    farm.workers["worker", 1].wait(60)
    farm.start(("worker", 1), team(2), SERVERS, leasing())
    output(farm, ("worker", 0)), output(farm, ("worker", 1))
    assert each_once(saved(farm)[1], 600, 2)


def test_asynchronous_workers_stop_together(farm: Farm) -> None:
    for workers in (1, 3, 2):
        farm.begin(team(workers), SERVERS, leasing(LONG, pace_s=0.1))
        reached(farm, 1 + max((e[0] for e in farm.heard.of("saved")), default=0))
        farm.call(farm.hub.stop_together)
        for task in team(workers)[1:]:
            assert farm.workers[task].wait(60) == 0
        farm.workers["ps", 0].kill()
    farm.begin(team(2), SERVERS, leasing(LONG))
    output(farm, ("worker", 0)), output(farm, ("worker", 1))
    assert each_once(saved(farm)[1], LONG, 2)


def test_saves_of_asynchronous_workers_hold_whole_steps(farm: Farm) -> None:
    farm.begin(team(3), SERVERS, leasing(LONG, every_s=0.01, pace_s=0.001))
    for i in range(3):
        output(farm, ("worker", i))
    assert farm.heard.of("saved")
    farm.workers["ps", 0].kill()
    farm.begin(team(1), SERVERS, leasing(LONG))
    output(farm, ("worker", 0))
    assert each_once(saved(farm)[1], LONG, 2)
