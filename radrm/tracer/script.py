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
import os
import sys
import threading
import time
from typing import Any, NoReturn

import devices
import documents
import groups
import kernels
import lines
import omissions
import pretend
import refusals
import torch
import values
import weights
from ahead import Ahead
from data import Data
from evaluation import Evaluation
from mixed import Mixed
from problem import in_one_line
from program import is_over, spent_s, wait_for_rank_0
from steps import Steps
from torch._subclasses.fake_tensor import FakeTensorMode
from watch import Watch

MOST_SKIPPED = 12
MOST_EVENTS = 3_500_000
EVALUATION_S = 2.0, 8.0
"""The evaluation after the steps may take as long as the script until then, within these."""


def begin(imports: Any, program: Any) -> None:
    """Trace this process from now on. PyTorch has just been imported."""
    gpus = int(os.environ.get("RADRM_TRACE_GPUS") or 1)
    if program.launcher:
        pretend.answers(gpus)
        return
    folder = os.environ["RADRM_TRACE_FOLDER"]
    # Fake tensors read its settings, and nothing else of the compiler.
    imports.defer("torch._dynamo", ("config",), {"graph_break": lambda *_, **__: None})
    Script(imports, program.name, folder, program.limit_s, gpus).begin()


class Script:
    """The trace of this process.

    `guesses` are lines for the user. `skipped` has what the trace left out, in short nouns. `fail`
    ends the process with an error that names the cause; `finish` ends it with the events.
    """

    def __init__(self, imports: Any, name: str, folder: str, limit_s: float, gpus: int) -> None:
        self.imports, self.name, self.gpus = imports, name, gpus
        self._folder, self._limit_s = folder, limit_s
        self._started = time.monotonic()
        self._until_s = limit_s
        """The processor time at which this process is judged."""
        self._pid, self._inherited = os.getpid(), 0
        self.skipped: list[str] = []
        self.guesses: list[str] = []
        self.parallel = "none"
        self.watch = Watch()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.steps = Steps(
            self.watch, self.enough, self._slow, lambda: bool(self._after), self._steered
        )
        self.data = Data(self)
        self.evaluation = Evaluation(self)
        self._ahead = Ahead()
        self._copied = 0
        """The bytes of weights that the program copies later on."""
        self._after = ""
        self._status: object = None

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
        self._ahead.begin()
        self._enter()
        _in_threads(self._enter)
        self._watch_the_clock()
        os.register_at_fork(after_in_child=self._forked)
        self._remember_the_status()
        atexit.register(self._ended)

    def _remember_the_status(self) -> None:
        """A wrong argument ends a program with a status: its message names that."""
        leave = sys.exit

        def remember(status: Any = None) -> NoReturn:
            self._status = status
            leave(status)

        sys.exit = remember

    def _enter(self) -> None:
        torch.autograd.set_multithreading_enabled(False)
        Mixed(self.fake, self.watch, keeps_values=True).__enter__()
        values.Sizes(self._sized).__enter__()

    def _steered(self, line: str) -> None:
        self.fail("needs more or less by a branch on a value computed on the GPU", line)

    def _sized(self) -> None:
        self.fail("makes a tensor whose size depends on a value computed on the GPU", lines.here())

    def _spread(self) -> None:
        self.fail("uses several GPUs in one process, which cannot be traced,", lines.here())

    def wait(self) -> NoReturn:
        """Wait for rank 0: this process has turned out to be another."""
        wait_for_rank_0(self._folder)
        os._exit(0)

    def skip(self, noun: str) -> None:
        """Note that the trace leaves this out."""
        if noun not in self.skipped:
            self.skipped.append(noun)

    # ------------------------------------------------------------------ ends

    def _slow(self) -> bool:
        return spent_s() > self._limit_s / 4

    def enough(self, reason: str) -> None:
        """Enough steps have been seen: let the script evaluate, if a loader's epoch ends now."""
        if not self._after and self.data.seek_larger():
            self.steps.larger = True
            return
        if self._after or not self.data.end_epoch():
            self.finish(self._after or reason)
        self._after = reason
        more = min(max(spent_s(), EVALUATION_S[0]), EVALUATION_S[1])
        self._until_s = min(self._until_s, spent_s() + more)
        self.evaluation.forget()
        self.steps.stage_ends()
        values.truths.eager = values.Truths.MOST

    def finish(self, reason: str) -> NoReturn:
        line = self._ahead.trains(self.steps.trained)
        if line is not None:
            self.fail("trains more weights later on", line)
        line = self._ahead.copies()
        if line is not None:
            self.guesses.append(f"copies: one of all weights, which {line} makes later on")
            self._copied = self.steps.sizes()["parameter_bytes"]
        documents.end(self._folder, {"version": documents.VERSION, **self._traced(reason)})

    def fail(self, cause: str, line: str | None = None) -> NoReturn:
        """End with the error `PROGRAM CAUSE`; `line` is the line of the user's code."""
        documents.end(self._folder, documents.error(self.name, cause, line))

    def _ended(self) -> None:
        """Judge a program that has ended by itself."""
        if os.getpid() != self._pid:
            return
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException) and not self._has_enough():
            self.fail(f"failed with {in_one_line(error)}", lines.of_error(error))
        status = self._status
        self._judge("steps", f"ended with status {status}" if status else "ended", "and")

    def _expired(self) -> None:
        """Judge a program whose time is over."""
        if os.getpid() != self._pid and self.steps.backward == self._inherited:
            os._exit(0)  # a child that loads data, or the like
        self._judge("time", f"has had its {self._limit_s:.0f} s", "but")

    def _has_enough(self) -> bool:
        """Return whether the second step was reached, or passes without an optimizer."""
        steps = self.steps
        return bool(self._after or steps.shortened or max(steps.counts, default=0) >= 2)

    def _judge(self, reason: str, ended: str, word: str) -> NoReturn:
        passes, counts = self.steps.backward, self.steps.counts
        if not self.watch.sizes:
            self.fail(f"{ended} {word} used no GPU")
        if not passes:
            self.fail(f"{ended} {word} made no backward pass on the GPU")
        if not self._has_enough():
            made = f"{sum(counts)} of 2 steps" if counts else "no optimizer's step"
            self.fail(f"{ended} {word} made {made}")
        if self.steps.rising and reason == "time":
            self.fail(f"{ended} {word} needed more with each step")
        self.finish(self._after or reason)

    def _watch_the_clock(self) -> None:
        def watch() -> None:
            while spent_s() < self._until_s and len(self.watch.events) <= MOST_EVENTS:
                if is_over(self._folder):
                    break
                time.sleep(0.2)
            self._expired()

        threading.Thread(target=watch, name="radrm-clock", daemon=True).start()

    def _forked(self) -> None:
        """A child that trains writes a document of its own; one that does not writes none."""
        documents.forked()
        self._inherited = self.steps.backward
        self._watch_the_clock()

    # ------------------------------------------------------------------ the document

    def _traced(self, reason: str) -> dict[str, Any]:
        watch = self.watch
        return {
            **watch.written(self._copied),
            "parts": kernels.parts_of(set(watch.operators)),
            **self.steps.sizes(),
            "faketensor_bytes": 0,
            "batch_size": 0,
            "input_shape": [],
            "optimizer": self.steps.name,
            "precision": self.steps.precision(),
            "gpus": self.gpus,
            "gpu_mib": pretend.gpu_mib(),
            "parallel": self.parallel,
            "torch": str(torch.__version__),
            "cuda": str(torch.version.cuda or "none"),
            "summary": "",
            "guesses": [
                *self.guesses,
                *(f"values: {each} was guessed" for each in sorted(watch.guesses)),
            ],
            "seconds": round(time.monotonic() - self._started, 3),
            "benchmark": bool(torch.backends.cudnn.benchmark),
            "script": {
                "program": self.name,
                "steps": self.steps.counts,
                "backward": self.steps.backward,
                "reason": reason,
                "skipped": self.skipped[:MOST_SKIPPED],
            },
        }


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
