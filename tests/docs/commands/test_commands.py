"""Every command of the documentation: those of radrm are parsed by their own parsers, and asked of
a real daemon where that is possible; transcripts are run by tests/daemon/guides.

A block holds shell lines (`sh`, `bash`, `console`), a job file, configuration, Python, or text.
"""

from __future__ import annotations

import ast
import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec

import pytest

from radrm.cli.listing import commands as listed
from radrm.cli.main import answer
from radrm.config import parse_config
from radrm.errors import RadrmError, UsageError
from radrm.jobfile.radfile import read_job_file
from tests.daemon.harness import DaemonHome
from tests.docs.commands.pages import SHELL, Block, blocks, pages, simple_commands, spoken
from tests.docs.commands.parsing import mistake
from tests.paths import REPOSITORY


@cache
def all_blocks() -> list[Block]:
    """The blocks of all pages. Not at the import: each worker of the suite imports this file."""
    return [block for page in pages() for block in blocks(page)]


@cache
def all_lines() -> list[tuple[str, str]]:
    """The shell lines of all pages, and where they stand."""
    return [
        (f"{block.page}:{block.line}", line)
        for block in all_blocks()
        if block.kind in SHELL and not block.is_job_file
        for line in block.lines()
    ]


OTHERS = {
    **dict.fromkeys(("apt", "apt-get", "dpkg", "systemctl", "loginctl"), "changes the system"),
    **dict.fromkeys(("pip", "pipx", "uv", "git"), "asks other servers"),
    **dict.fromkeys(("nvidia-smi", "dcgmi"), "needs a GPU"),
    **dict.fromkeys(("sacct", "sbatch", "scancel", "squeue"), "needs Slurm"),
    **dict.fromkeys(("srun", "wait"), "stands in a job: see tests/slurm/inside"),
    **dict.fromkeys(("nginx", "prometheus", "promtool", "curl", "ssh"), "needs a server"),
    **dict.fromkeys(
        ("docker", "podman", "apptainer", "vllm", "apprise", "claude"), "is not installed"
    ),
    **dict.fromkeys(
        ("cat", "cd", "cp", "mv", "rm", "ls", "mkdir", "tee", "head", "awk"), "of the system"
    ),
    **dict.fromkeys(("echo", "printf", "export", "exit", "kill", "source", "."), "of the shell"),
    **dict.fromkeys(("python", "python3", "make", "radrm-simjob"), "checked below, or a job's"),
}
"""Programs that the pages name beside radrm, and why no test runs them."""
TEXTS = ("text", "mermaid", "json", "ini", "nginx", "yaml", "promql", "xml")
"""Kinds of blocks that hold no command."""


def words_of_radrm(line: str) -> Iterator[list[str]]:
    """The words behind `radrm` of each of its commands in a line."""
    for words in simple_commands(line):
        while words[:1] == ["sudo"]:
            words = words[1:]
        if words and words[0].rpartition("/")[2] in ("radrm", "$(command -v radrm)"):
            yield words[1:]


# ------------------------------------------------------------------ as text


def test_there_is_something_to_check() -> None:
    assert len(all_lines()) > 150
    assert mistake(["status", "--al"]) and mistake(["sttus"]) and mistake(["logs"])
    assert mistake(["submit", "--gpu-memory=much", "--", "true"]) and mistake(["edit", "12"])
    assert mistake(["daemon", "--set", "polcy=lug"]) and mistake(["mps", "halt"], spoken=True)
    assert not mistake(["logs"], spoken=True)
    line = 'X=1 sudo "$(command -v radrm)" drain 0 2> err; cp a "$(radrm spool)" | radrm gpus > out'
    assert sorted(words_of_radrm(line)) == [["drain", "0"], ["gpus"], ["spool"]]


def test_every_block_has_a_kind() -> None:
    known = (*SHELL, *TEXTS, "toml", "python")
    errors = [f"{b.page}:{b.line}: {b.kind!r}" for b in all_blocks() if b.kind not in known]
    assert not errors, f"fence them as one of {known}: {errors}"


def test_every_command_of_radrm_is_one() -> None:
    wrong = []
    for where, line in all_lines():
        for words in words_of_radrm(line):
            if said := mistake(words):
                wrong.append(f"{where}: {line}\n    {said}")
    assert not wrong, "\n".join(wrong)


def test_every_command_in_a_sentence_is_one() -> None:
    wrong = []
    for page in pages():
        for where, text in spoken(page):
            words = shlex.split(re.split(" [>|] ", text)[0])[1:]
            if said := mistake(words, spoken=True):
                wrong.append(f"{where}: {text}\n    {said}")
    assert not wrong, "\n".join(wrong)


def test_every_other_program_is_known() -> None:
    targets = re.findall(r"^([\w-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    for where, line in all_lines():
        if any(True for _ in words_of_radrm(line)):
            continue
        for words in simple_commands(line):
            program, *rest = words[1:] if words[0] == "sudo" else words
            name = program.rpartition("/")[2]
            assert name in OTHERS, f"{where}: {line}\n    say in OTHERS why no test runs {name}"
            if name == "make":
                assert not rest or "=" in rest[0] or rest[0] in targets, f"{where}: {line}"
            elif name.startswith("python") and rest[:1] == ["-m"]:
                assert find_spec(rest[1]), f"{where}: {line}"


def test_every_job_file_is_read_without_a_remark() -> None:
    files = [block for block in all_blocks() if block.is_job_file]
    assert len(files) > 8
    for block in files:
        text = block.text if block.text.startswith("#!") else f"#!/bin/sh\n{block.text}true\n"
        read = read_job_file(text.encode(), block.file or "job.rad", {})
        assert read.notes == (), f"{block.page}:{block.line}"


def test_every_configuration_is_one() -> None:
    files = [block for block in all_blocks() if block.kind == "toml"]
    assert len(files) > 8
    for block in files:
        if not block.text.startswith("[project"):  # a package's own
            parse_config(block.text, f"{block.page}:{block.line}")


def test_every_program_is_python() -> None:
    for block in all_blocks():
        if block.kind == "python":
            ast.parse(block.text, f"{block.page}:{block.line}")


# ------------------------------------------------------------------ asked of a daemon

ASKED = (
    *("status", "explain", "logs", "gpus", "history", "report", "limits"),
    *("estimate", "submit", "edit", "hold", "release", "cancel", "requeue", "drain", "resume"),
    *("reserve", "spool", "doctor", "config", "migrate", "checkpoint", "resize"),
)
"""Commands that answer at once. The others last, change the system, or need a terminal."""
LASTING = {"--wait", "--follow", "-f", "<", "--slurm"}
"""Options with which they last, or ask the servers of a site."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonHome]:
    """A daemon with the jobs and files that the pages speak of."""
    place = DaemonHome(tmp_path_factory.mktemp("documented"), gpus="sim:4xA100-40GB")
    for name in ("train.rad", "job.sbatch", "job.sh", "train.py", "rad_files/one_gpu.rad"):
        (place.work / name).parent.mkdir(exist_ok=True)
        place.file(name, "#!/bin/sh\nexec sleep 1000\n")
    place.start()
    place.radrm("submit", "--array=0-10", "--hold", "train.rad")
    place.radrm("submit", "--array=0-9", "--name=sweep-1", "train.rad")
    place.wait_state("12_3", "RUNNING")
    yield place
    place.close()


def ask(words: list[str]) -> tuple[int, str]:
    """Run a command in this process. Returns its exit code and what it printed.

    Only `UsageError` is raised.
    """
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with redirect_stdout(out), redirect_stderr(out):
        try:
            code = answer(words)
        except UsageError:
            raise
        except RadrmError as error:
            code = error.exit_code
            print(f"radrm: {error}")
    out.seek(0)
    return code, out.read()


@pytest.mark.daemon
@pytest.mark.nightly
def test_the_daemon_answers_every_command_that_answers_at_once(
    full: DaemonHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does what the command says, or refuses it in one line: the job 12 of some page is another
    one here."""
    monkeypatch.chdir(full.work)
    for name, value in full.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    done = refused = 0
    asked = {
        tuple(words): where
        for where, line in all_lines()
        if not LASTING & set(shlex.split(line, comments=True))
        for words in words_of_radrm(line)
        if words[0] in ASKED
    }
    for words, where in asked.items():
        code, said = ask(list(words))
        assert code in (0, 1), f"{where}: radrm {shlex.join(words)}: {code}\n{said}"
        done += not code
        refused += code and said.startswith("radrm: ")
    assert done + refused >= len(asked) - 3, "exit code 1 comes with a reason, but for `doctor`"
    assert done > 0.6 * len(asked)


def test_the_lists_are_of_commands() -> None:
    assert set(ASKED) <= set(listed())
