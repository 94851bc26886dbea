"""Trace an unmodified training script, from its import of PyTorch to three steps.

Theory of operation: the program runs as itself, in its own interpreter, with its own arguments.
Right after its import of PyTorch, `begin` makes PyTorch believe in a GPU and enters the mode that
runs the CPU's part for real (`mixed`). Hooks count the steps (`steps`). Once enough is seen, the
document is written and the process ends at once, wherever it is. A program that ends by itself,
or fails, is judged at its end (`_ended`). A clock in a thread of its own limits the time.

Never a wrong answer: without an allocation on the GPU, a backward pass, or a second step there is
an error with its reason in place of events.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
import time
from typing import Any, NoReturn

import devices
import groups
import lines
import omissions
import pretend
import refusals
import torch
import weights
from data import Data
from evaluation import Evaluation
from mixed import Mixed
from problem import in_one_line
from steps import Steps
from torch._subclasses.fake_tensor import FakeTensorMode
from watch import Watch

VERSION = 1
MOST_SKIPPED = 12
MOST_EVENTS = 3_500_000
NEXT = "specify --gpu-memory, or a --model-factory"
EVALUATION_S = 2.0, 8.0
"""The evaluation after the steps may take as long as the script until then, within these."""
_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def begin(imports: Any, program: Any) -> None:
    """Trace this process from now on. PyTorch has just been imported."""
    gpus = int(os.environ.get("RADRM_TRACE_GPUS") or 1)
    if program.launcher:
        pretend.answers(gpus)
        return
    limit_s = float(os.environ.get("RADRM_TRACE_LIMIT_S") or 60)
    folder = os.environ["RADRM_TRACE_FOLDER"]
    if any((os.environ.get(name) or "0").strip() not in ("0", "") for name in _RANKS):
        wait_for_rank_0(folder, limit_s)
    Script(imports, program.name, folder, limit_s, gpus).begin()


def wait_for_rank_0(folder: str, limit_s: float) -> NoReturn:
    """Wait for the document of rank 0, as the other ranks of a job do, and end."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if any(name.endswith(".json") for name in os.listdir(folder)):
            break
        time.sleep(0.2)
    os._exit(0)


class Script:
    """The trace of this process.

    `skipped` has what the trace left out, in short nouns. `fail` ends the process with an error
    that names the cause; `finish` ends it with the events.
    """

    def __init__(self, imports: Any, name: str, folder: str, limit_s: float, gpus: int) -> None:
        self.imports, self.name, self.gpus = imports, name, gpus
        self._folder, self._limit_s = folder, limit_s
        self._started = time.monotonic()
        self._deadline = self._started + limit_s
        self._pid = os.getpid()
        self._written = threading.Lock()
        self.skipped: list[str] = []
        self.parallel = "none"
        self.precision = "fp32"
        self.watch = Watch()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.steps = Steps(self.watch, self.enough, self._slow, lambda: bool(self._after))
        self.data = Data(self)
        self.evaluation = Evaluation(self)
        self._after = ""

    def begin(self) -> None:
        torch.set_num_threads(1)
        gc.freeze()
        pretend.begin(self.gpus)
        _memory(self.watch)
        if self.gpus > 1:
            devices.on_other_gpu.append(self._spread)
        weights.begin(self.fake)
        self.steps.begin()
        self.data.begin()
        self.evaluation.begin()
        groups.begin(self)
        omissions.begin(self)
        refusals.begin(self)
        self._enter()
        _in_threads(self._enter)
        self._watch_the_clock()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self._ended)

    def _enter(self) -> None:
        torch.autograd.set_multithreading_enabled(False)
        Mixed(self.fake, self.watch, keeps_values=True).__enter__()

    def _spread(self) -> None:
        self.fail("uses several GPUs in one process, which cannot be traced,", lines.here())

    def wait(self) -> NoReturn:
        """Wait for rank 0: this process has turned out to be another."""
        wait_for_rank_0(self._folder, max(self._deadline - time.monotonic(), 0))

    def skip(self, noun: str) -> None:
        """Note that the trace leaves this out."""
        if noun not in self.skipped:
            self.skipped.append(noun)

    # ------------------------------------------------------------------ ends

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def _slow(self) -> bool:
        return self.elapsed_s > self._limit_s / 4

    def enough(self, reason: str) -> None:
        """Enough steps have been seen: let the script evaluate, if a loader's epoch ends now."""
        if self._after or not self.data.end_epoch():
            self.finish(self._after or reason)
        self._after = reason
        left = min(max(self.elapsed_s, EVALUATION_S[0]), EVALUATION_S[1])
        self._deadline = min(self._deadline, time.monotonic() + left)

    def finish(self, reason: str) -> NoReturn:
        self._write({"version": VERSION, **self._traced(reason)})
        self._leave()

    def fail(self, cause: str, line: str | None = None) -> NoReturn:
        """End with the error `PROGRAM: CAUSE`; `line` is the line of the user's code."""
        at = f" at {line}" if line else ""
        document: dict[str, Any] = {
            "version": VERSION,
            "error": in_one_line(f"{self.name} {cause}{at}; {NEXT}"),
        }
        if line:
            document["line"] = line
        self._write(document)
        self._leave()

    def _leave(self) -> NoReturn:
        # Not an exception: the user's code could catch it, and its own end could take long.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        os._exit(0)

    def _ended(self) -> None:
        """Judge a program that has ended by itself."""
        if os.getpid() != self._pid:
            return
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and max(self.steps.counts, default=0) < 2:
            text = f"failed with {in_one_line(error)}"
            self.fail(text, lines.of_error(error))
        self._judge("steps", "ended")

    def _expired(self) -> None:
        if self._after:
            self.finish(self._after)
        self._judge("time", f"did not reach its second step within {self._limit_s:.0f} s:")

    def _judge(self, reason: str, ended: str) -> NoReturn:
        if self._after:
            self.finish(self._after)
        counts = self.steps.counts
        if not self.watch.sizes:
            self.fail(
                f"{ended} and used no GPU" if reason == "steps" else f"{ended} it used no GPU"
            )
        if not self.steps.backward:
            self.fail(f"{ended} without a backward pass on the GPU")
        if max(counts, default=0) < 2 and reason == "time" and not self.steps.shortened:
            self.fail(f"{ended} it made {sum(counts)} steps")
        if not counts:
            self.fail(f"{ended} without an optimizer's step")
        self.finish(reason)

    def _watch_the_clock(self) -> None:
        def watch() -> None:
            while True:
                left = self._deadline - time.monotonic()
                if left <= 0 or len(self.watch.events) > MOST_EVENTS:
                    self._expired()
                time.sleep(min(left, 0.5))

        threading.Thread(target=watch, name="radrm-clock", daemon=True).start()

    def _forked(self) -> None:
        """A child that trains writes a document of its own; one that does not writes none."""
        self._written = threading.Lock()
        self._watch_the_clock()

    # ------------------------------------------------------------------ the document

    def _traced(self, reason: str) -> dict[str, Any]:
        watch = self.watch
        return {
            # Copies: another thread of the program may still be running.
            "events": list(watch.events),
            "calls": list(watch.calls),
            "marks": list(watch.marks),
            "convolutions": list(watch.convolutions),
            **self.steps.sizes(),
            "faketensor_bytes": 0,
            "batch_size": 0,
            "input_shape": [],
            "optimizer": self.steps.name,
            "precision": "amp" if self.steps.scaled else self.precision,
            "gpus": self.gpus,
            "parallel": self.parallel,
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda or "none"),
            "summary": "",
            "guesses": [f"values: {each} was guessed" for each in sorted(watch.guesses)],
            "seconds": round(self.elapsed_s, 3),
            "benchmark": bool(torch.backends.cudnn.benchmark),
            "script": {
                "program": self.name,
                "steps": self.steps.counts,
                "backward": self.steps.backward,
                "reason": reason,
                "skipped": self.skipped[:MOST_SKIPPED],
            },
        }

    def _write(self, document: dict[str, Any]) -> None:
        """Write the document atomically, once."""
        if not self._written.acquire(blocking=False):
            time.sleep(5)  # another thread is writing, and ends the process
            os._exit(0)
        path = os.path.join(self._folder, f"{os.getpid()}.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
        os.replace(path + ".part", path)


def _in_threads(enter: Any) -> None:
    """Enter the mode in the threads that the program starts: modes are each thread's own."""
    thread: Any = threading.Thread
    run = thread._bootstrap_inner

    def bootstrap(self: Any) -> None:
        if self.name != "radrm-clock":
            enter()
        run(self)

    thread._bootstrap_inner = bootstrap


def _memory(watch: Watch) -> None:
    """Let `torch.cuda` answer with the memory that is allocated so far."""
    total = torch.cuda.get_device_properties(0).total_memory
    answers: dict[str, Any] = {
        "memory_allocated": lambda *_, **__: watch.live,
        "max_memory_allocated": lambda *_, **__: watch.peak,
        "memory_reserved": lambda *_, **__: watch.live,
        "max_memory_reserved": lambda *_, **__: watch.peak,
        "reset_peak_memory_stats": lambda *_, **__: watch.reset_peak(),
        "reset_max_memory_allocated": lambda *_, **__: watch.reset_peak(),
        "mem_get_info": lambda *_, **__: (max(total - watch.live, 0), total),
    }
    for module in (torch.cuda, torch.cuda.memory):
        for name, answer in answers.items():
            if hasattr(module, name):
                setattr(module, name, answer)
