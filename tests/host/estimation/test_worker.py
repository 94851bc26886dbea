"""Asking estimators in a process of their own: a worker that fails costs one answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from radrm.config import Config, EstimationConfig
from radrm.core.records import Estimate
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Quantity
from radrm.estimators.interface import PastRun
from radrm.host.estimation.asking import Asking
from radrm.host.estimation.worker import COMMAND, NoAnswer, Question, Thinker
from radrm.host.processes.procfs import read_stat
from radrm.host.workers import MAX_MESSAGE, packed
from radrm.structs import replace
from tests.host.estimation.asking import HASTY, description, sources
from tests.waiting import wait_until

TABLE = (
    "Layer (type)  Output Shape  Param #\n====\n"
    "Linear-1  [-1, 1024]  1024\n====\nTotal params: 1,024\n"
)


# ------------------------------------------------------------------ asking


def test_every_answer_says_how_long_it_took() -> None:
    answer = Asking(Config()).ask(description(summary=TABLE, batch_size=8))
    assert sources(answer)[-1] == "horus"
    assert all(e.seconds is not None and e.seconds >= 0 for e in answer.estimates)


def test_a_trace_that_cannot_be_used_is_a_note_and_the_next_route_takes_over() -> None:
    for events in (b"", b"[" * 100_000, b"{}", b'{"error": "the factory raised\\u001b[31m"}'):
        answer = Asking(Config()).ask(description(summary=TABLE, batch_size=8), events)
        assert sources(answer)[-1] == "horus"
        (note,) = answer.notes
        assert note.startswith("trace: ") and note.isprintable() and len(note) <= 300


def test_a_prediction_beyond_any_gpu_means_a_whole_one_and_says_what_to_check() -> None:
    answer = Asking(Config()).ask(description(summary=TABLE, batch_size=10**9))
    memory = [e for e in answer.estimates if e.quantity is Quantity.MEMORY]
    assert {(e.value, e.upper) for e in memory} == {(WHOLE_DEVICE_MIB, WHOLE_DEVICE_MIB)}
    assert "more than any GPU has" in answer.notes[-1] and "--batch-size" in answer.notes[-1]


# ------------------------------------------------------------------ the worker


def test_the_worker_answers_as_the_estimators_themselves_do() -> None:
    past = (PastRun(4000, "A100", told={"horus": 3000.0}),)
    job = description(summary=TABLE, batch_size=8, recent_runs=past, input_shape=(3, 4))
    thinker = Thinker(Config())
    try:
        found = thinker.ask(Question(job))
        again = thinker.ask(Question(job, b"{}"))
        with pytest.raises(NoAnswer, match="a text is not UTF-8"):
            thinker.ask(Question(description(summary="\udcff")))
    finally:
        thinker.close()
    expected = Asking(Config()).ask(job)
    assert [untimed(e) for e in found.estimates] == [untimed(e) for e in expected.estimates]
    assert [note[:6] for note in again.notes] == ["trace:"]


def untimed(estimate: Estimate) -> Estimate:
    return replace(estimate, seconds=None)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ("import time; time.sleep(600)", "took longer than 0.3 s"),
        ("sys.stdin.buffer.read(10); sys.exit(3)", "failed"),
        ("sys.stdin.buffer.read(10); os.write(1, b'\\xff' * 100)", "failed"),
    ],
)
def test_a_worker_that_hangs_dies_or_babbles_costs_one_answer(
    tmp_path: Path, after: str, why: str
) -> None:
    ready = b"\x82\xa9estimates\x90\xa5notes\x90"
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys\n"
        f"ready = {ready!r}\n"
        "os.write(1, len(ready).to_bytes(4, 'big') + ready)\n"
        f"{after}\n"
    )
    thinker = Thinker(HASTY if "longer" in why else Config(), [sys.executable, str(script)])
    for _ in range(2):
        with pytest.raises(NoAnswer, match=why):
            thinker.ask(Question(description()))
    thinker.close()


def test_the_worker_dies_with_its_daemon_even_while_it_thinks(tmp_path: Path) -> None:
    """It would not see the end of its input."""
    code = (
        "import os, sys, time\n"
        "from radrm.config import Config\n"
        "from radrm.host.estimation.worker import Thinker\n"
        "thinker = Thinker(Config()); thinker.prepare()\n"
        "pid = thinker.worker.process.pid; os.kill(pid, 19)\n"
        "os.dup2(thinker.worker.process.stdin.fileno(), 200, True)\n"
        "if not os.fork(): os.write(1, b'%d\\n' % pid); time.sleep(600)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        worker = int(daemon.stdout.readline())
        daemon.kill()
        wait_until(lambda: (found := read_stat(worker)) is None or found.dead)
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.communicate()


@pytest.mark.nightly
def test_a_thought_without_end_is_ended_by_the_kernel() -> None:
    """Should there be no daemon any more that does."""
    code = (
        "import sys, time\n"
        "from radrm.host.estimation import worker\n"
        "class Asking(worker.Asking):\n"
        "    def ask(self, job, *trace):\n"
        "        while job.batch_size == 13: time.sleep(600)\n"
        "        return super().ask(job, *trace)\n"
        "worker.Asking = Asking\n"
        "sys.exit(worker.main())\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    config = Config(estimation=EstimationConfig(time_limit_s=0.1)).to_table()
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as worker:
        worker.stdin.write(packed(config) + packed(Question(description(batch_size=13))))
        worker.stdin.flush()
        assert worker.wait() == -signal.SIGALRM


def test_a_question_that_is_too_long_is_not_read() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        _, said = worker.communicate((MAX_MESSAGE + 1).to_bytes(4, "big"))
    assert worker.returncode == 1 and b"the limit is 128 MiB" in said
