"""A job of `radrun` in a folder: its program, its daemon's files, and what its workers noted.

The test is the daemon: it writes placements and reads the answers. The workers' program notes each
sample that a step trained on, so a test can tell what the surviving model has seen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S, wait_until

PROGRAM = """
import json, os, sys, time
from radrm import elastic

samples, batch, pause_s, every = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), 10

def note(name, **fields):
    line = json.dumps({"pid": os.getpid(), "radrun": os.getppid(),
                       "generation": int(os.environ["RADRM_GENERATION"]),
                       "rank": int(os.environ["RANK"]),
                       **fields}) + "\\n"
    fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode())
    os.close(fd)

def meet(step):
    # As an all-reduce would: what is saved has the samples of all.
    me = int(os.environ["RADRM_GENERATION"]), step
    while True:
        with open("steps") as file:
            here = [json.loads(line) for line in file.read().split("\\n")[:-1]]
        if sum((n["generation"], n["step"]) == me for n in here) >= int(os.environ["WORLD_SIZE"]):
            break
        time.sleep(0.001)

data = elastic.ShardedDataset(range(samples), epochs=1, seed=7)
step = elastic.load() or 0
note("begun", step=step, gpu=os.environ.get("CUDA_VISIBLE_DEVICES"), cpus=elastic.cpus())
for numbers in elastic.loader(data, global_batch=batch):
    time.sleep(0.05 if os.path.exists("slow") else pause_s)
    step += 1
    note("steps", step=step, samples=numbers if elastic.weight() else [])
    wanted = elastic.step(loss=1.0 / step)
    if os.path.exists("stuck") and os.environ["RADRM_GENERATION"] == "1":
        time.sleep(1000)
    if wanted or step % every == 0 and os.path.exists("saves"):
        meet(step)
        elastic.save(step)
        note("saved", step=step)
note("ended", step=step)
"""


class Place:
    """One job in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "elastic"
        self.shared.mkdir(mode=0o700)
        self.process: subprocess.Popen[bytes] | None = None
        self.write("train.py", PROGRAM)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("RADRM_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "RADRM_CHECKPOINT_DIR": str(folder / "checkpoints"),
        }

    # ---------------------------------------------------------------- the daemon's part

    def place(self, number: int, gpus: Iterable[int], role: str = "main", **fields: Any) -> None:
        """Write placement `number`: one task per GPU."""
        tasks = [
            {
                "role": role,
                "task": task,
                "gpus": [f"GPU-{gpu}"],
                "cpus": None,
                "environment": {"CUDA_VISIBLE_DEVICES": f"GPU-{gpu}"},
            }
            for task, gpu in enumerate(gpus)
        ]
        self.write_placement(number, tasks, **fields)

    def write_placement(self, number: int, tasks: list[dict[str, Any]], **fields: Any) -> None:
        document = {
            "version": 1,
            "generation": number,
            "grace_s": 20.0,
            "due_boot_s": None if number == 1 else self.in_s(PATIENCE_S),
            "boot_id": "",
            "tasks": tasks,
            **fields,
        }
        draft = self.shared / f".placement-{number}"
        draft.write_text(json.dumps(document))
        draft.rename(self.shared / f"placement-{number}.json")

    @staticmethod
    def in_s(seconds: float) -> float:
        """A boot time so many seconds from now."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) + seconds

    def wait_answer(self, number: int) -> dict[str, Any]:
        """The answer to the resize to placement `number`."""
        path = self.shared / f"resized-{number}.json"

        def there() -> bool:
            assert self.process is not None
            if self.process.poll() is not None and not path.exists():
                raise AssertionError(f"radrun ended before {path.name}; it said: {self.said()}")
            return path.exists()

        wait_until(there, path.name)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def tasks(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.shared / "tasks.json").read_text())
        return found

    # ---------------------------------------------------------------- radrun

    def start(self, *words: str, elastic: bool = True, **variables: str) -> None:
        """Start `radrun`; without `elastic`, outside radrm."""
        environment = {**self.environment, **variables}
        if elastic:
            environment["RADRM_ELASTIC_DIR"] = str(self.shared)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "radrm.elastic.radrun", *words],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def train(self, samples: int, batch: int, pause_s: float, **variables: str) -> None:
        """Start a training. It is slow until `wait`, so that a test has the time for its acts."""
        self.write("slow")
        self.start("train.py", str(samples), str(batch), str(pause_s), **variables)

    def wait(self) -> int:
        """The exit code. A slow training goes on at full speed."""
        (self.folder / "slow").unlink(missing_ok=True)
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """kill -9 of radrun, and wait until its workers have gone."""
        assert self.process is not None
        pids = [each["pid"] for each in self.notes("begun")]
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(map(lives, pids)), "the workers' end")

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def said(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    # ---------------------------------------------------------------- the program's notes

    def write(self, name: str, text: str = "") -> None:
        (self.folder / name).write_text(text)

    def notes(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        if not path.exists():
            return []
        # A line that is being written, or was when its worker was killed, is left out.
        return [json.loads(line) for line in path.read_text().split("\n")[:-1]]

    def wait_step(self, step: int, generation: int = 1) -> None:
        def reached() -> bool:
            found = self.notes("steps")
            return any(n["step"] >= step and n["generation"] >= generation for n in found)

        wait_until(reached, f"step {step}; {self.said()}")

    def seen(self) -> list[int]:
        """All samples that the surviving model has seen."""
        return seen_by(self.notes("begun"), self.notes("steps"))


def seen_by(begun: list[dict[str, Any]], steps: list[dict[str, Any]]) -> list[int]:
    """All samples that the surviving model has seen, along the lineage of its checkpoints.

    A generation goes on from a step, so what earlier ones did after it is not in the model.
    """

    def generation(note: dict[str, Any]) -> tuple[int, int]:
        return note["radrun"], note["generation"]

    begins = {generation(note): note["step"] for note in begun}
    order = list(begins)
    later = {each: [begins[other] for other in order[i + 1 :]] for i, each in enumerate(order)}
    found: list[int] = []
    for note in steps:
        if all(note["step"] <= step for step in later[generation(note)]):
            found += note["samples"]
    return found


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"
