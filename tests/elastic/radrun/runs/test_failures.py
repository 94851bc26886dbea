"""What happens when workers, radrun or its files fail."""

from __future__ import annotations

import os
import signal

import pytest

from tests.elastic.radrun.runs.place import Place, lives
from tests.waiting import wait_until


def worker_of(place: Place, generation: int, rank: int = 0) -> int:
    """The pid of a worker that has begun."""

    def found() -> int | None:
        for note in place.notes("begun"):
            if (note["generation"], note["rank"]) == (generation, rank):
                return int(note["pid"])
        return None

    return wait_until(found, f"rank {rank} of generation {generation}; {place.said()}") or 0


def test_a_dead_worker_restarts_all_from_the_last_checkpoint(place: Place) -> None:
    place.write("saves")
    place.place(1, [0, 1])
    place.train(samples=1600, batch=8, pause_s=0.0)
    wait_until(lambda: place.notes("saved"), "a save")
    os.kill(worker_of(place, 1, 1), signal.SIGKILL)
    assert place.wait() == 0, place.said()
    assert "task 1 (main)" in place.said() and "SIGKILL" in place.said()
    assert "all workers start again from the last checkpoint (restart 1 of 3)" in place.said()
    assert sorted(place.seen()) == list(range(1600))
    assert {note["generation"] for note in place.notes("begun")} == {1, 2}


def test_restarts_are_bounded(place: Place) -> None:
    place.write("fails.py", "import os, sys\nsys.exit(3 + int(os.environ['RANK']))\n")
    place.start("--max-restarts=2", "--nproc-per-node=2", "fails.py", elastic=False)
    assert place.wait() in (3, 4)
    assert "(restart 1 of 2)" in place.said() and "(restart 2 of 2)" in place.said()
    assert "2 of 2 restarts are used" in place.said()


def test_saves_let_a_job_fail_more_often(place: Place) -> None:
    place.write("saves")
    place.place(1, [0])
    place.start("--max-restarts=1", "train.py", "4000", "8", "0.004")
    for generation in (1, 2, 3):
        pid = worker_of(place, generation)
        saved = len(place.notes("saved"))
        wait_until(lambda saved=saved: len(place.notes("saved")) > saved + 1, "a save")
        os.kill(pid, signal.SIGKILL)
    assert place.wait() == 0, place.said()
    assert sorted(place.seen()) == list(range(4000))


def test_the_exit_code_of_a_signal(place: Place) -> None:
    place.write("dies.py", "import os\nos.kill(os.getpid(), 11)\n")
    place.start("--max-restarts=0", "dies.py", elastic=False)
    assert place.wait() == 128 + 11
    assert "signal 11 (SIGSEGV)" in place.said()


def test_when_radrun_is_killed_its_workers_die(place: Place) -> None:
    place.place(1, [0, 1])
    place.train(samples=80_000, batch=8, pause_s=0.01)
    place.wait_step(3)
    place.kill()  # waits for the end of the workers
    assert not any(lives(note["pid"]) for note in place.notes("begun"))


def test_a_killed_radrun_is_started_again_and_goes_on(place: Place) -> None:
    place.write("saves")
    place.place(1, [0, 1])
    place.train(samples=1600, batch=8, pause_s=0.0)
    wait_until(lambda: place.notes("saved"), "a save")
    place.kill()
    place.train(samples=1600, batch=8, pause_s=0.0)
    assert place.wait() == 0, place.said()
    assert sorted(place.seen()) == list(range(1600))


def test_a_worker_that_dies_while_standbys_start_does_not_stop_the_resize(place: Place) -> None:
    place.write("saves")
    place.place(1, [0])
    place.train(samples=1600, batch=8, pause_s=0.0)
    wait_until(lambda: place.notes("saved"), "a save")
    place.place(2, [0, 1])
    os.kill(worker_of(place, 1), signal.SIGKILL)
    assert "tasks" in place.wait_answer(2)
    assert place.wait() == 0, place.said()
    assert sorted(place.seen()) == list(range(1600))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_workers(place: Place, number: int) -> None:
    place.place(1, [0, 1])
    place.train(samples=80_000, batch=8, pause_s=0.01)
    place.wait_step(3)
    place.process.send_signal(number)
    assert place.wait() in (128 + number, 1), place.said()  # Python makes INT an error: 1
    assert not any(lives(note["pid"]) for note in place.notes("begun"))


def test_the_save_signal_saves_at_one_step_and_goes_on(place: Place) -> None:
    place.place(1, [0, 1])
    place.train(samples=1600, batch=8, pause_s=0.0, RADRM_CHECKPOINT_SIGNAL="10")
    place.wait_step(5)
    place.process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(place.notes("saved")) >= 2, "a save of both ranks")
    first, second = place.notes("saved")[:2]
    assert first["step"] == second["step"] and {first["rank"], second["rank"]} == {0, 1}
    assert place.wait() == 0
    assert sorted(place.seen()) == list(range(1600))


def test_with_checkpoint_exit_term_saves_and_leaves(place: Place) -> None:
    place.place(1, [0, 1])
    place.train(samples=1600, batch=8, pause_s=0.0, RADRM_CHECKPOINT_SIGNAL="15")
    place.wait_step(5)
    place.process.send_signal(signal.SIGTERM)
    assert place.wait() == 0, place.said()
    done = max(note["step"] for note in place.notes("steps"))
    assert done < 200
    place.train(samples=1600, batch=8, pause_s=0.0)
    assert place.wait() == 0
    assert sorted(place.seen()) == list(range(1600))
    assert [n["step"] for n in place.notes("begun") if n["rank"] == 0] == [0, done]


def test_two_radruns_of_one_job_are_refused(place: Place) -> None:
    place.place(1, [0])
    place.train(samples=80_000, batch=8, pause_s=0.01)
    place.wait_step(1)
    other = Place.__new__(Place)
    other.__dict__.update(place.__dict__)
    other.train(samples=80, batch=8, pause_s=0)
    assert other.wait() == 1
    assert "another radrun runs the tasks of this job" in place.said()
