"""Commands read their words as typer does, without typer."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command

from radrm.cli import main as entry
from radrm.cli.app import WrongUsage, make_app, typed
from radrm.cli.listing import commands, function_of, of_group, parameters_of
from radrm.cli.parameters import (
    COMMAND,
    FLAG,
    NUMBER,
    OF_JOBS,
    REAL,
    SWITCH,
    TEXTS,
    WORD,
    WORDS,
    Parameter,
    parse,
)
from radrm.errors import UsageError
from tests.cli.fakes import gpu, job, page
from tests.cli.heavy import HEAVY
from tests.examples import some
from tests.paths import REPOSITORY

DECLARED = {
    each
    for name in commands()
    for each in of_group(name) or (name,)
    if name not in ("submit", "run")
}
PARAMETERS: dict[str, Sequence[Parameter]] = {n: parameters_of(n) for n in sorted(DECLARED)}


def by_name(name: str) -> Any:
    """The command of typer, which may be one of a group."""
    found: Any = get_command(make_app(name.split()[0]))
    for word in name.split():
        found = found.commands[word]
    return found


BY_TYPER = {name: by_name(name) for name in PARAMETERS}


def takes_rest(parameters: Sequence[Parameter]) -> bool:
    return any(each.kind == COMMAND for each in parameters)


def recorder(parameters: Sequence[Parameter]) -> tuple[Any, list[dict[str, Any]]]:
    """A command of typer's with these parameters, and the values that it was called with."""
    called: list[dict[str, Any]] = []

    def command(**values: Any) -> None:
        called.append(values)

    app = typer.Typer(add_completion=False)
    mixed = not takes_rest(parameters)
    app.command(context_settings={"allow_interspersed_args": mixed}, add_help_option=False)(
        typed(command, parameters)
    )
    return get_command(app), called


RECORDERS = {name: recorder(parameters) for name, parameters in PARAMETERS.items()}


def by_typer(name: str, words: Sequence[str]) -> dict[str, Any] | None:
    """What typer calls a command with; None where it refuses the words, or shows help."""
    command, called = RECORDERS[name]
    called.clear()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            command.main(list(words), standalone_mode=False)
    except WrongUsage:
        return None
    return called[0] if called else None


OPTIONS = [
    (name, each, flag)
    for name, parameters in PARAMETERS.items()
    for each in parameters
    for flag in each.flags
]


def argument(command: str) -> list[str]:
    """A job, for a command that needs one."""
    return ["12"] if any(each.is_argument and each.least for each in PARAMETERS[command]) else []


def test_every_option_is_read_as_typer_reads_it() -> None:
    for command, option, flag in OPTIONS:
        flagged = option.kind in (FLAG, SWITCH)
        value = "7" if option.kind in (NUMBER, REAL) else "a b"
        long = flag.startswith("--")
        lines = [[flag]] if flagged else [[flag, value], *([[f"{flag}={value}"]] * long)]
        for words in lines:
            after = [] if takes_rest(PARAMETERS[command]) else [[*argument(command), *words]]
            for line in ([*words, *argument(command)], *after):
                found = parse(PARAMETERS[command], line)
                assert found is not None and found == by_typer(command, line), (command, line)
                yes = option.kind == FLAG or flag == option.flags[0]
                assert found[option.name] == (yes if flagged else by_kind(option, value))


def by_kind(option: Parameter, value: str) -> str | float | list[str]:
    if option.kind == TEXTS:
        return [value]
    return float(value) if option.kind in (NUMBER, REAL) else value


def test_the_function_takes_what_is_declared_and_typer_has_no_other_option() -> None:
    for command, declared in PARAMETERS.items():
        names = {each.name for each in declared}
        taken = inspect.signature(function_of(command)).parameters.values()
        own = [each.name for each in taken if each.kind is not each.VAR_KEYWORD]
        # What several commands share goes to a record that checks the names.
        shares = len(own) < len(taken)
        assert names >= set(own) if shares else [e.name for e in declared] == own, command
        read = BY_TYPER[command].params
        typers = {name for each in read for name in (*each.opts, *each.secondary_opts)}
        assert typers - {*names} == {f for each in declared for f in each.flags}, command


COMMANDS = sorted(PARAMETERS)
FLAGS = sorted({flag for each in PARAMETERS.values() for one in each for flag in one.flags})
# fmt: off
UNUSUAL = [
    "--help", "--", "-", "-fn", "-n5", "-n=5", "--pag", "12", "sweep-*", "", "0", "1001", "+5",
    " 5", "5_0", "\u0665", "-5", "x y", "running,failed",
]
# fmt: on
WORD_LIKE = st.sampled_from([*FLAGS, *(f"{flag}=3" for flag in FLAGS), *UNUSUAL])


@given(st.sampled_from(COMMANDS), st.lists(WORD_LIKE, max_size=5))
@settings(max_examples=some(500))
def test_what_is_read_here_is_what_typer_reads(command: str, words: list[str]) -> None:
    try:
        found = parse(PARAMETERS[command], words)
    except UsageError:  # an option that is in no table: typer does not know those of jobs
        assert any(each.kind == OF_JOBS for each in PARAMETERS[command])
        return
    if found is not None and found.get("command"):
        return  # what stands behind `--`: typer does not know it
    assert found is None or found == by_typer(command, words)


def test_a_command_behind_two_dashes_keeps_its_own_options() -> None:
    found = parse(PARAMETERS["estimate"], ["--gpus=2", "--", "python", "a.py", "--json", "--", "b"])
    assert found is not None and (found["files"], found["options"]) == ([], {"gpus": "2"})
    assert found["command"] == ["python", "a.py", "--json", "--", "b"] and not found["as_json"]


@pytest.mark.parametrize(
    ("words", "jobs", "options"),
    [
        (["3", "--gpu-memory=16G"], ["3"], {"gpu-memory": "16G"}),
        (["3", "--time", "2h", "4", "-g2"], ["3", "4"], {"time": "2h", "gpus": "2"}),
        (["3", "--env=A=1", "--env=B=2", "--json"], ["3"], {"env": ["A=1", "B=2"]}),
        (["3", "--expect-idle", "--state=failed"], ["3"], {"expect-idle": True}),
    ],
)
def test_a_requeue_takes_the_options_of_jobs(
    words: list[str], jobs: list[str], options: dict[str, object]
) -> None:
    found = parse(PARAMETERS["requeue"], words)
    assert found is not None and (found["jobs"], found["options"]) == (jobs, options)


@pytest.mark.parametrize(
    "words",
    [["3", "--gpu-memroy=16G"], ["3", "--time=2h", "--state"], ["3", "--time=x"], ["3", "--gpus"]],
)
def test_a_requeue_refuses_wrong_options(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(PARAMETERS["requeue"], words)


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--nothing"], ["--page"], ["--page", "0"], ["--page=x"], ["-fx"], ["--json=1"]],
)
def test_anything_unusual_is_left_to_typer(words: list[str]) -> None:
    assert parse(PARAMETERS["status"], words) is None


@pytest.mark.parametrize("words", [[], ["1", "2"]])
def test_a_missing_or_a_second_argument_is_a_mistake(words: list[str]) -> None:
    assert parse(PARAMETERS["logs"], words) is None
    assert parse([Parameter("jobs", WORDS, "", least=1)], []) is None
    assert parse([Parameter("job", WORD, "", least=1)], words) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "--pages", "2"], "radrm status: unknown option --pages; did you mean --page?"),
        (["status", "--page", "0"], "radrm status: invalid value for '--page'"),
        (["logs"], "radrm logs: missing argument 'JOB'"),
        (["wait"], "radrm wait: missing argument 'JOB"),
    ],
)
def test_mistakes_are_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["radrm", *words])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith(said) and shown.count("\n") == 1


def test_the_modules_of_commands_declare_no_parameters_of_others() -> None:
    package = Path(entry.__file__).parents[1]
    patterns = ("cli/commands/*.py", "*/command.py", "*/commands/*.py")
    places = {file for pattern in patterns for file in package.glob(pattern)}
    declaring = {
        name.removesuffix("_PARAMETERS").lower().replace("_", "-")
        for file in places
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and (name := ast.unparse(_target(node))).endswith("_PARAMETERS")
    }
    assert declaring == {name.rpartition(" ")[2] for name in DECLARED}


def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
    return node.target if isinstance(node, ast.AnnAssign) else node.targets[0]


# ------------------------------------------------------------------ what they import


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["status", "--json"],
        ["status", "12"],
        ["explain", "12"],
        ["gpus"],
        ["limits"],
        ["cancel", "12"],
        ["hold", "--state", "pending"],
        ["drain", "0", "--reason", "fan"],
        ["wait", "12"],
        ["logs", "12"],
        ["logs", "12", "-f"],
    ],
    ids=" ".join,
)
def test_in_a_pipe_they_import_little(words: list[str], tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("epoch 1\n")
    ended = job(12, "COMPLETED")
    answers = {
        "page": page([ended], RUNNING=1),
        "status": [ended],
        "explain": {"job": ended, "attempts": [], "summary": None, "now": 0.0},
        "gpus": [gpu(notes=["hot"])],
        "limits": {"user": "ada", "uid": 1, "note": None, "limits": []},
        "shares": {"half_life_s": 60.0, "users": [], "groups": []},
        "logs": {"stdout": str(log), "stderr": str(log), "live": False, "uid": os.getuid()},
        **{command: [] for command in ("cancel", "hold", "drain")},
    }
    done = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps(answers), *words],
        # Its daemon has been here: without one, `logs` looks whether this is a login node.
        env={"PYTHONPATH": str(REPOSITORY), "RADRM_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.splitlines()[-1].split()).isdisjoint(HEAVY - {"radrm.cli.show"})


_RUN = """
import json, os, sys

answers = json.loads(sys.argv.pop(1))
before = set(sys.modules)
from radrm.cli import main
from radrm.client.connection import Client
from radrm.client.last_state import ReadingClient

answers["pages"] = {"jobs": answers["status"], "next": None}
Client.ask = lambda self, op, **words: answers["pages" if "after" in words else op]
ReadingClient.ask = Client.ask
leave = os._exit

def tell_and_leave(code):
    print(*(set(sys.modules) - before), file=sys.stderr, flush=True)
    leave(code)

os._exit = tell_and_leave
main.main()
"""


def test_a_command_of_a_wing_ends_as_python_does() -> None:
    """It may have threads and processes, which would outlive it otherwise."""
    code = "import atexit; atexit.register(print, 'ended')\nfrom radrm.cli import main; main.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "estimators", "--json"],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "ended"
