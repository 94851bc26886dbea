"""Which files a script's output goes to, and how they end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts.redirected import FIELD, looks_at_redirected, names_in
from radrm.host.attempts.tails import read_as_user
from radrm.host.wall import wall_s
from tests.host.attempts.runner.attempt import launch_record

ENVIRONMENT = {"HOME": "/home/me", "RADRM_JOB_ID": "7"}


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("python train.py > train.log 2>&1", ["train.log"]),
        ("python train.py &> 'kld0.9 step2.log'", ["kld0.9 step2.log"]),
        ("python train.py >>a.log 2>b.log", ["a.log", "b.log"]),
        ("python train.py 2>&1 | tee -a logs/run.log", ["logs/run.log"]),
        ("exec > >(tee out.txt) 2>&1", ["out.txt"]),
        ("L=x; python a.py", []),
        ('LOG=run_$RADRM_JOB_ID.log\npython a.py > "$LOG" 2>&1', ["run_7.log"]),
        ("cd /data/p\npython a.py > ~/x.log", ["/home/me/x.log"]),
        ("cd code\npython a.py > x.log", ["x.log", "code/x.log"]),
        ("python a.py > $(date).log", []),
        ("python a.py > ${UNKNOWN}.log", []),
        ("python a.py > /dev/null 2>&1", []),
        ("python a.py < in.txt 2>&1", []),
        ("cat <<< text; a >&2", []),
    ],
)
def test_names(script: str, names: list[str]) -> None:
    assert names_in(script, ENVIRONMENT) == names


@pytest.mark.parametrize("unit", ["> ", "tee -a ", "a=$a\n", "cd x\n", '>"', "$", "> a\n"])
def test_hostile_scripts_come_to_an_end(unit: str) -> None:
    assert len(names_in(unit * 60_000, ENVIRONMENT)) <= 16


def read(place: Path, began_s: float, **changes: Any) -> list[list[str]]:
    launch = launch_record("token", place, **changes)
    found = read_as_user(launch, looks_at_redirected(launch, began_s))
    files: list[list[str]] = found.get(FIELD, [])
    return files


def test_only_its_own_files_of_this_attempt_are_read(tmp_path: Path) -> None:
    began_s = wall_s()
    for name in ("old.log", "new.log", "out"):
        (tmp_path / name).write_text("first\n" + "x" * 100_000 + "\nlast\n")
    (tmp_path / "empty.log").touch()
    (tmp_path / "folder.log").mkdir()
    os.utime(tmp_path / "old.log", (began_s - 60, began_s - 60))
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "link.log").symlink_to("new.log")
    names = ("old", "new", "empty", "folder", "pipe", "link", "missing")
    script = "".join(f"a > {name}.log\n" for name in names) + "a > out\n"
    [[name, end]] = read(tmp_path, began_s, script=script)
    assert name == "new.log" and end.endswith("x\nlast\n") and len(end) == 16 * 1024


def test_a_command_line_is_read_like_a_script(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\xff\x00bad\n")
    assert read(tmp_path, 0.0, argv=["bash", "-c", "a > a.log"]) == [["a.log", "\ufffd\0bad\n"]]
    assert read(tmp_path, 0.0, argv=["python", "a.py"]) == []
