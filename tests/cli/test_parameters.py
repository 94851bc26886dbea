"""Commands, their declared parameters, and what they import."""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.cli import main as entry
from radrm.cli.listing import commands, function_of, of_group, parameters_of
from radrm.errors import UsageError
from radrm.jobfile.arguments import COMMAND, FLAG, NUMBER, REAL, SWITCH, TEXTS, Parameter, parse
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


OPTIONS = [
    (name, each, flag)
    for name, parameters in PARAMETERS.items()
    for each in parameters
    for flag in each.flags
]


def argument(command: str) -> list[str]:
    """A job, for a command that needs one."""
    return ["12"] if any(each.is_argument and each.least for each in PARAMETERS[command]) else []


def test_every_option_is_read_in_each_spelling() -> None:
    for command, option, flag in OPTIONS:
        flagged = option.kind in (FLAG, SWITCH)
        value = "7" if option.kind in (NUMBER, REAL) else "a b"
        joined = [f"{flag}={value}" if flag.startswith("--") else f"{flag}{value}"]
        takes_rest = any(each.kind == COMMAND for each in PARAMETERS[command])
        for words in [[flag]] if flagged else [[flag, value], joined]:
            after = [] if takes_rest else [[*argument(command), *words]]
            for line in ([*words, *argument(command)], *after):
                found = parse(PARAMETERS[command], line, command)
                assert found is not None, (command, line)
                yes = option.kind == FLAG or flag == option.flags[0]
                assert found[option.name] == (yes if flagged else by_kind(option, value))


def by_kind(option: Parameter, value: str) -> str | float | list[str]:
    if option.kind == TEXTS:
        return [value]
    return float(value) if option.kind in (NUMBER, REAL) else value


def test_the_function_takes_what_is_declared() -> None:
    for command, declared in PARAMETERS.items():
        names = {each.name for each in declared}
        taken = inspect.signature(function_of(command)).parameters.values()
        own = [each.name for each in taken if each.kind is not each.VAR_KEYWORD]
        # What several commands share goes to a record that checks the names.
        shares = len(own) < len(taken)
        assert names >= set(own) if shares else [e.name for e in declared] == own, command


FLAGS = sorted({flag for each in PARAMETERS.values() for one in each for flag in one.flags})
# fmt: off
UNUSUAL = [
    "--help", "--", "-", "-fn", "-n5", "-n=5", "--pag", "12", "sweep-*", "", "0", "1001", "+5",
    " 5", "5_0", "\u0665", "-5", "x y", "running,failed", "--page=nan", "-\x1b[2J",
]
# fmt: on
WORD_LIKE = st.sampled_from([*FLAGS, *(f"{flag}=3" for flag in FLAGS), *UNUSUAL])


@given(st.sampled_from(sorted(PARAMETERS)), st.lists(WORD_LIKE, max_size=5))
@settings(max_examples=some(500))
def test_any_words_are_read_or_are_a_mistake_in_one_line(command: str, words: list[str]) -> None:
    try:
        found = parse(PARAMETERS[command], words, command)
    except UsageError as error:
        assert str(error).startswith(f"{command}: ") and "\n" not in str(error)
        return
    if found is None:
        assert {"--help", "-h"} & set(words)
    else:
        assert [*found] == [each.name for each in PARAMETERS[command]]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["-fn5", "12"], {"follow": True, "lines": 5}),
        (["-n", "5", "12"], {"lines": 5}),
        (["12", "--lines=+5"], {"lines": 5}),
        (["--", "-f"], {"job": "-f", "follow": False}),
    ],
)
def test_spellings(words: list[str], values: dict[str, object]) -> None:
    found = parse(PARAMETERS["logs"], words, "logs")
    assert values.items() <= {**found, "job": found["job"]}.items()


def test_a_command_behind_two_dashes_keeps_its_own_options() -> None:
    found = parse(
        PARAMETERS["estimate"],
        ["--gpus=2", "--", "python", "a.py", "--json", "--", "b"],
        "estimate",
    )
    assert (found["files"], found["options"]) == ([], {"gpus": "2"})
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
    found = parse(PARAMETERS["requeue"], words, "requeue")
    assert (found["jobs"], found["options"]) == (jobs, options)


@pytest.mark.parametrize(
    "words",
    [["3", "--gpu-memroy=16G"], ["3", "--time=2h", "--state"], ["3", "--time=x"], ["3", "--gpus"]],
)
def test_a_requeue_refuses_wrong_options(words: list[str]) -> None:
    with pytest.raises(UsageError):
        parse(PARAMETERS["requeue"], words, "requeue")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "--pages", "2"], "unknown option '--pages'; did you mean --page?"),
        (["status", "--page", "0"], "--page is 0"),
        (["status", "--page=x"], "'x' is not a number"),
        (["status", "--page"], "--page=N"),
        (["status", "--user", "--all"], "--user=NAME"),
        (["status", "-fx"], "unknown option '-x'"),
        (["status", "--json=1"], "takes no value"),
        (["logs"], "missing argument JOB"),
        (["logs", "1", "2"], "'2'"),
        (["wait"], "missing argument JOB"),
        (["config", "shwo"], "did you mean show?"),
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
    assert shown.startswith(f"radrm: {words[0]}: ") and said in shown and shown.count("\n") == 1


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
