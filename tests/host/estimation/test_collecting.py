"""Which of the documents that a user's programs write counts, and what is said without one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from radrm.config import EstimationConfig
from radrm.host.estimation import collecting, pythons, tracing
from radrm.host.estimation.collecting import Documents, peak
from radrm.host.estimation.tracing import trace
from radrm.jobfile.radfile import Program
from radrm.structs import replace
from tests.host.estimation.boxes import (
    LIMITS,
    PYTHON,
    SAY,
    by_own_daemon,
    needs_python,
    needs_sandbox,
    request,
)

SMALL = {"version": 1, "events": [100, 50, -1, 60], "script": {"program": "a.py"}}
LARGE = {"version": 1, "events": [100, 90, -1, -2], "script": {"program": "b.py"}}
NO_GPU = {"version": 1, "error": "data.py used no GPU"}
FAULT = {"version": 1, "error": "no such key", "line": "train.py:41"}


@pytest.mark.parametrize(
    ("events", "most"),
    [
        ([], 0),
        ([5], 5),
        ([5, 7, -1, 6], 13),
        ([5, -1, -1, 7], 2),  # a wrong free is the estimator's to refuse
        ([5, -9], 5),
        ([5, True], 0),
        ([5, 0], 0),
        ([5, "x"], 0),
        ("events", 0),
        (None, 0),
    ],
)
def test_the_most_that_lives_at_one_time(events: object, most: int) -> None:
    assert peak({"events": events}) in (most, max(most, 5) if events == [5, -1, -1, 7] else most)


def write(folder: Path, *documents: object) -> None:
    for number, document in enumerate(documents):
        (folder / f"{number}.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("documents", "best", "error"),
    [
        ([SMALL, LARGE, NO_GPU], LARGE, NO_GPU),
        ([LARGE, SMALL], LARGE, None),
        ([NO_GPU, FAULT], None, FAULT),
        ([FAULT, NO_GPU], None, FAULT),
        ([], None, None),
    ],
)
def test_the_document_that_counts(
    tmp_path: Path, documents: list[object], best: object, error: object
) -> None:
    write(tmp_path, *documents)
    found = Documents(str(tmp_path))
    assert found.look() == (best is not None)
    assert (found.best, found.error) == (best, error)
    write(tmp_path, *documents)
    assert found.look() == (best is not None), "each is read once"


def test_files_that_are_no_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MAX_DOCUMENT", 1000)
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(LARGE))
    (tmp_path / "1.json").symlink_to(secret)
    os.mkfifo(tmp_path / "2.json")
    (tmp_path / "3.json").mkdir()
    (tmp_path / "4.json.part").write_text(json.dumps(LARGE))
    (tmp_path / "..5.json").write_text(json.dumps(LARGE))
    found = Documents(str(tmp_path))
    assert not found.look() and found.error is None
    (tmp_path / "6.json").write_text('{"version": 1, "events": ')
    assert not found.look() and "cannot be read" in str(found.error)
    for number, text in enumerate(("[1]", "x" * 2000, "[" * 900, "\0", '{"error": 7}')):
        (tmp_path / f"a{number}.json").write_text(text)
    assert not found.look()


def test_only_some_documents_are_read(tmp_path: Path) -> None:
    write(tmp_path, *([NO_GPU] * 300))
    found = Documents(str(tmp_path))
    found.look()
    (tmp_path / "last.json").write_text(json.dumps(LARGE))
    assert not found.look()


# ------------------------------------------------------------------ in a sandbox

RUNS = [needs_sandbox, needs_python]


def outcome(text: str, folder: Path, limits: EstimationConfig = LIMITS) -> dict[str, object]:
    found = json.loads(trace(request(text, folder), limits))
    assert isinstance(found, dict)
    return found


TRAINS = """
script = {"program": "a.py", "skipped": ["compile"]}
doc = {"version": 1, "events": [9], "script": script}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ValueError('no data at /x')", "ended with exit code 1 before a training step"),
        ("raise ValueError('no data at /x')", "ValueError: no data at /x"),
        ("os.kill(os.getpid(), 11)", "was ended by signal 11"),
        ("print('done')", "no Python program of it ran a training step on a GPU"),
        ("say({'version': 1, 'error': 'it'}); sys.exit(1)", "it"),
        ("print('x' * (1 << 24)); sys.exit(3)", "exit code 3 before a training step: xxx"),
        ("os.close(1); os.close(2); sys.exit(3)", "exit code 3"),
    ],
)
@pytest.mark.skipif(not all(not mark.args[0] for mark in RUNS), reason="no sandbox, or no Python")
def test_why_a_command_left_no_trace(tmp_path: Path, text: str, words: str) -> None:
    line = str(outcome(text, tmp_path)["error"])
    assert words in line and "\n" not in line and len(line) < 400


@needs_sandbox
@needs_python
def test_what_follows_a_traced_program_is_waited_for_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "MORE_S", 0.3)
    for folder in (tmp_path, *tmp_path.parents):  # the user's daemon has to enter it
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o055)
    cut = json.loads(
        by_own_daemon(request(TRAINS + "say(doc)\nimport time; time.sleep(600)", tmp_path))
    )
    assert cut["script"] == {"program": "a.py", "skipped": ["compile", "what follows a.py"]}
    monkeypatch.setattr(collecting, "MORE_S", 60.0)
    whole = outcome(TRAINS + "say(doc)\nsay({'version': 1, 'events': [5, 5]}, '2')", tmp_path)
    assert whole["events"] == [5, 5] and "script" not in whole


@needs_sandbox
@needs_python
def test_a_command_that_never_trains_is_given_up_in_time(tmp_path: Path) -> None:
    found = outcome("while True: pass", tmp_path, EstimationConfig(trace_limit_s=1.0))
    assert "longer than 1 s; declare --gpu-memory" in str(found["error"])


@needs_sandbox
@needs_python
def test_the_limit_is_processor_time_and_programs_are_warned_before_it(
    tmp_path: Path,
) -> None:
    """After one of its three seconds the program is warned, and writes its document."""
    text = "over = os.path.join(os.environ['RADRM_TRACE_FOLDER'], 'over')\n"
    text += "while not os.path.exists(over): os.listdir('/')\n"
    text += "used = sum(os.times()[:2])\nsay({'version': 1, 'used': used})"
    found = outcome(text, tmp_path, EstimationConfig(trace_limit_s=3.0))
    used = found["used"]
    assert isinstance(used, float) and 0 < used < 3


@needs_sandbox
@needs_python
def test_the_command_runs_as_the_job_would(tmp_path: Path) -> None:
    text = """
say({"version": 1, "seen": [
    os.getcwd(), os.environ["PYTHONPATH"].split(":")[1], os.environ["RADRM_TRACE_GPUS"],
    0 < float(os.environ["RADRM_TRACE_LIMIT_S"]) < 40,
    len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")),
    os.umask(0), sys.stdin.read(), os.listdir(os.environ["RADRM_CHECKPOINT_DIR"]),
]})
"""
    asked = request(text, tmp_path, PYTHONPATH="mine")
    seen = json.loads(trace(asked, LIMITS))["seen"]
    assert seen == [str(tmp_path), "mine", "1", True, 1, 0o022, "", []]


@needs_sandbox
@needs_python
@pytest.mark.parametrize(
    "command",
    ["{python} say.py", "PYTHONPATH=/nothing {python} say.py", "{python} -I say.py"],
)
def test_a_python_is_taken_whatever_pythonpath_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.taken = getattr(sys, 'taken', 0) + 1\n")
    (tmp_path / "say.py").write_text(SAY + "say({'version': 1, 'seen': sys.taken})")
    monkeypatch.setattr(tracing, "SITE", site)
    program = Program(None, command.format(python=PYTHON), ("/bin/sh",))
    asked = replace(request("", tmp_path), program=program)
    assert json.loads(trace(asked, LIMITS))["seen"] == 1


def test_the_pythons_that_a_job_may_run(tmp_path: Path) -> None:
    def installed(prefix: Path) -> str:
        library = prefix / "lib" / "python3.12"
        for folder in (library, prefix / "bin"):
            folder.mkdir(parents=True)
        (library / "os.py").touch()
        (prefix / "bin" / "python3").touch()
        return str(library)

    home, cwd = tmp_path / "home", tmp_path / "home" / "job"
    conda, base = installed(home / "miniconda3" / "envs" / "ml"), installed(tmp_path / "base")
    named = installed(home / "own")
    for venv in (cwd / ".venv", tmp_path / "venv"):
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").symlink_to(tmp_path / "base" / "bin" / "python3")
    launch = {
        "argv": None, "interpreter": ["/bin/bash"], "cwd": str(cwd),
        "script": "source ~/own/bin/activate\n$HOME/none/bin/python x.py; ../../venv/bin/python y",
        "environment": {"HOME": str(home), "PATH": "::/nothing"},
    }  # fmt: skip
    found = pythons.libraries(launch)
    assert found[:2] == [named, base] and conda in found
    assert len(set(found)) == len(found)
