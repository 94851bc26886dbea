"""What is shown of a submission, and to whom."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from radrm.daemon.views.submitted import submitted
from radrm.documents.jobs import Environment
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission, parse_envelope
from radrm.structs import replace
from tests.host.storage.envelopes import envelope
from tests.host.storage.pasts import decided, job

CONDA = {"CONDA_PREFIX": "/opt/conda/envs/t", "CONDA_DEFAULT_ENV": "t"}
VENV = {"VIRTUAL_ENV": "/home/ann/v"}
SCRIPT = "#!/bin/bash\n#RAD --gpu-memory=4G --env=A=1\ntrue\n"
COMMAND = ("python", "train.py", "\udcff")


def shown(folder: Path, uid: int = 4000, **fields: Any) -> dict[str, Any]:
    """What `uid` sees of a job of 4000."""
    store = Store(str(folder / "store"))
    sent = envelope(**fields)
    made = job(1, 0)
    made = replace(made, ticket=sent.ticket, spec=replace(made.spec, uid=4000))
    store.save([decided(made)], [Submission(4000, 1, sent, parse_envelope(sent))])
    found = submitted(store, made, uid)
    store.close()
    return found


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        (
            {"script": SCRIPT, "options": {"time": "1h"}, "arguments": ("a b",)},
            {
                "command": ("/home/ann/a.rad", "a b"),
                "script": "/home/ann/a.rad",
                "folder": "/home/ann",
                "options": ("--gpu-memory=4G", "--env=A=1", "--time=1h"),
            },
        ),
        (
            {"script": None, "file": None, "command": COMMAND, "options": {"chdir": "x"}},
            {
                "command": ("python", "train.py", "\ufffd"),
                "script": None,
                "folder": "/home/ann/x",
                "options": ("--chdir=x",),
            },
        ),
        (
            {
                "script": None,
                "file": None,
                "command": ("/usr/bin/python3", "-I", "inside.py", "--", "bash"),
                "options": {"interactive": True, "expect-idle": True},
            },
            {"command": ("bash",), "options": ("--expect-idle",)},
        ),
        ({"host": "gpu7"}, {"submit_host": "gpu7"}),
        ({"script": "true\n", "file": None}, {"command": ("-",), "script": None}),
    ],
)
def test_its_user_sees_what_was_submitted(
    tmp_path: Path, fields: dict[str, Any], wanted: dict[str, Any]
) -> None:
    found = shown(tmp_path, **fields)
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, Environment(kind="none", name=None)),
        (CONDA, Environment(kind="conda", name="t")),
        ({"CONDA_PREFIX": "/opt/x"}, Environment(kind="conda", name="/opt/x")),
        (VENV, Environment(kind="venv", name="/home/ann/v")),
        # The base of conda stays active below a venv, and a venv below an environment of conda.
        (
            {**CONDA, **VENV, "PATH": "/home/ann/v/bin:/opt/conda/envs/t/bin:/bin"},
            Environment(kind="venv", name="/home/ann/v"),
        ),
        (
            {**CONDA, **VENV, "PATH": "/opt/conda/envs/t/bin:/home/ann/v/bin"},
            Environment(kind="conda", name="t"),
        ),
    ],
)
def test_the_environment_is_the_first_in_the_path(
    tmp_path: Path, variables: dict[str, str], wanted: Environment
) -> None:
    assert shown(tmp_path, environment=variables)["environment"] == wanted


def test_others_see_nothing_of_it(tmp_path: Path) -> None:
    for uid in (0, os.getuid(), 4000):
        (tmp_path / str(uid)).mkdir(exist_ok=True)
        assert shown(tmp_path / str(uid), uid)
    assert shown(tmp_path, 4001) == {}


def test_a_long_command_is_cut(tmp_path: Path) -> None:
    words = ("a" * 60_000, "b" * 60_000, "c")
    found = shown(tmp_path, script=None, file=None, command=words)["command"]
    assert len(found) == 2 and found[1].endswith("b…") and sum(map(len, found)) < 66_000
