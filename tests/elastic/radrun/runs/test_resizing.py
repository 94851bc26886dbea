"""Resizes by `radrun`: every sample once, one generation at a time, and an answer in any case."""

from __future__ import annotations

import itertools
import json
import os

import pytest

from tests.elastic.radrun.runs.place import Place, lives
from tests.waiting import wait_until


def overlaps(place: Place) -> list[tuple[int, int]]:
    """Generations of which a step of an earlier one comes after one of a later one."""
    generations = [note["generation"] for note in place.notes("steps")]
    return [pair for pair in itertools.pairwise(generations) if pair[0] > pair[1]]


def test_a_job_grows_moves_and_shrinks_and_reads_every_sample_once(place: Place) -> None:
    place.place(1, [0])
    place.train(samples=1603, batch=8, pause_s=0.0)
    place.wait_step(5)
    for number, gpus in ((2, [0, 1, 2]), (3, [1, 3]), (4, [2])):
        place.place(number, gpus)
        answer = place.wait_answer(number)
        assert answer == {
            "version": 1,
            "generation": number,
            "tasks": [["main", task] for task in range(len(gpus))],
        }
        assert (place.shared / f"begun-{number}").exists()
    assert place.wait() == 0, place.said()
    assert sorted(place.seen()) == list(range(1603))
    assert not overlaps(place)
    steps = {(note["step"], note["rank"]) for note in place.notes("steps")}
    assert len(steps) == len(place.notes("steps")), "no step was done twice"
    gpus_of = [(note["generation"], note["gpu"]) for note in place.notes("begun")]
    assert sorted(gpus_of) == [
        (1, "GPU-0"),
        (2, "GPU-0"),
        (2, "GPU-1"),
        (2, "GPU-2"),
        (3, "GPU-1"),
        (3, "GPU-3"),
        (4, "GPU-2"),
    ]
    tasks = place.tasks()
    assert tasks["generation"] == 4 and [t["code"] for t in tasks["tasks"]] == [0]


def test_old_workers_are_dead_before_the_new_ones_run(place: Place) -> None:
    program = (place.folder / "train.py").read_text()
    child = (
        "import subprocess\nnote('child', child=subprocess.Popen(['setsid','sleep','1000']).pid)\n"
    )
    alive = (
        "if int(os.environ['RADRM_GENERATION']) > 1:\n"
        "    old = [json.loads(line)['child'] for line in open('child')]\n"
        "    note('alive', alive=[p for p in old if os.path.exists(f'/proc/{p}')])\n"
    )
    place.write("train.py", program.replace("data =", alive + child + "data =", 1))
    place.place(1, [0])
    place.train(samples=1600, batch=8, pause_s=0.0)
    place.wait_step(3)
    place.place(2, [1])
    assert "tasks" in place.wait_answer(2)
    assert place.wait() == 0, place.said()
    assert [note["alive"] for note in place.notes("alive")] == [[]]
    assert not any(lives(note["child"]) for note in place.notes("child"))


def test_exit_handlers_and_threads_of_a_stopped_worker_run(place: Place) -> None:
    """A stopped worker ends without Python's own clean-up, and with all of the program's."""
    program = (place.folder / "train.py").read_text()
    mine = (
        "import atexit, threading\n"
        "atexit.register(lambda: note('left'))\n"
        "done = threading.Event()\n"
        "threading.Thread(target=lambda: (done.wait(), note('joined'))).start()\n"
        "threading._register_atexit(done.set)\n"
        "print('unflushed', end='')\n"
    )
    place.write("train.py", program.replace("data =", mine + "data =", 1))
    place.place(1, [0])
    place.train(samples=1600, batch=8, pause_s=0.0)
    place.wait_step(3)
    place.place(2, [1])
    assert "tasks" in place.wait_answer(2)
    for name in ("left", "joined"):
        assert [note["generation"] for note in place.notes(name)] == [1]
    assert place.wait() == 0, place.said()
    assert place.said().count("unflushed") == 2


def test_a_standby_that_fails_leaves_the_old_workers_alone(place: Place) -> None:
    place.place(1, [0])
    place.train(samples=1600, batch=8, pause_s=0.0)
    place.wait_step(3)
    place.write_placement(
        2,
        [{"role": "main", "task": 0, "gpus": [], "environment": {"PYTHONHOME": "/nowhere"}}],
    )
    answer = place.wait_answer(2)
    assert "task 0 (main) ended with exit code 1 before it could begin" in answer["failed"]
    assert not (place.shared / "begun-2").exists()
    place.place(3, [0, 1])
    assert "tasks" in place.wait_answer(3)
    assert place.wait() == 0, place.said()
    assert sorted(place.seen()) == list(range(1600))
    assert {note["generation"] for note in place.notes("steps")} == {1, 3}


def test_a_withdrawn_resize_is_forgotten(place: Place) -> None:
    place.place(1, [0])
    place.train(samples=1600, batch=8, pause_s=0.0)
    place.wait_step(3)
    (place.shared / "begun-2").write_text('{"version": 1, "by": "radrm"}')
    place.place(2, [0, 1])
    assert place.wait_answer(2)["failed"] == "radrm has withdrawn it"
    assert place.wait() == 0
    assert {note["generation"] for note in place.notes("steps")} == {1}


def test_a_resize_that_is_too_late_does_not_begin(place: Place) -> None:
    place.place(1, [0])
    place.train(samples=1600, batch=8, pause_s=0.0)
    place.wait_step(3)
    place.place(2, [0, 1], due_boot_s=place.in_s(-1.0))
    assert "not ready in time: task " in place.wait_answer(2)["failed"]
    assert not (place.shared / "begun-2").exists()
    assert place.wait() == 0


def test_workers_that_do_not_stop_are_killed_and_the_last_checkpoint_counts(place: Place) -> None:
    place.write("saves")
    place.place(1, [0, 1], grace_s=0.5)
    place.train(samples=1600, batch=8, pause_s=0.0)
    wait_until(lambda: place.notes("saved"), "a save")
    place.write("stuck")
    place.place(2, [0], grace_s=0.5)
    assert "tasks" in place.wait_answer(2)
    assert place.wait() == 0, place.said()
    assert sorted(place.seen()) == list(range(1600))


def test_a_program_that_does_not_step_keeps_its_size(place: Place) -> None:
    place.write("train.py", "import time\ntime.sleep(0.6)\n")
    place.place(1, [0])
    place.train(samples=1, batch=1, pause_s=0)
    place.place(2, [0, 1], due_boot_s=None)
    assert "has not called elastic.step" in place.wait_answer(2)["failed"]
    assert place.wait() == 0


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "it is not JSON"),
        ('{"version": 2}', "its version is 2"),
        ('{"version": 1, "generation": 3}', "its generation is not 2"),
        ('{"version": 1, "generation": 2, "tasks": []}', "$.tasks"),
        ("[" * 100_000, "got `array`"),
        (" " * 300_000, "longer than 256 KiB"),
    ],
)
def test_a_placement_that_cannot_be_used_is_answered(place: Place, text: str, wrong: str) -> None:
    place.place(1, [0])
    place.train(samples=1600, batch=8, pause_s=0.0)
    (place.shared / ".draft").write_text(text)
    os.rename(place.shared / ".draft", place.shared / "placement-2.json")
    assert wrong in place.wait_answer(2)["failed"]
    assert place.wait() == 0


def test_a_second_run_in_the_same_attempt_has_the_last_size(place: Place) -> None:
    place.place(1, [0])
    place.place(2, [0, 1])
    (place.shared / "resized-2.json").write_text(
        json.dumps({"version": 1, "generation": 2, "tasks": [["main", 0], ["main", 1]]})
    )
    place.place(3, [0])
    (place.shared / "resized-3.json").write_text(
        json.dumps({"version": 1, "generation": 3, "failed": "no room"})
    )
    place.train(samples=80, batch=8, pause_s=0)
    assert place.wait() == 0, place.said()
    assert {note["rank"] for note in place.notes("begun")} == {0, 1}


def test_a_second_run_does_not_begin_what_the_first_has_refused(place: Place) -> None:
    """The GPUs of a resize that has failed may be another job's by then."""
    place.place(1, [0])
    place.place(2, [0, 1])
    text = json.dumps({"version": 1, "generation": 2, "failed": "no elastic.step"})
    (place.shared / "resized-2.json").write_text(text)
    place.train(samples=1600, batch=8, pause_s=0.0)
    place.wait_step(3)
    place.place(3, [0, 2])
    assert "tasks" in place.wait_answer(3)
    assert place.wait() == 0, place.said()
    assert not (place.shared / "begun-2").exists()
    assert (place.shared / "resized-2.json").read_text() == text
    assert {note["gpu"] for note in place.notes("begun")} == {"GPU-0", "GPU-2"}
