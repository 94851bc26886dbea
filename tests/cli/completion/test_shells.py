"""The scripts in real shells, without a daemon. A shell that is not installed is skipped."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from radrm.cli.main import main
from tests.cli.heavy import HEAVY
from tests.imports import imported_by
from tests.paths import REPOSITORY

ASK = """
source <(radrm completion bash)
COMP_WORDS=(radrm {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _radrm 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    radrm = tmp_path / "bin" / "radrm"
    radrm.write_text(f'#!/bin/sh\nexec {sys.executable} -m radrm.cli.main "$@"\n')
    radrm.chmod(0o755)
    (tmp_path / "train.rad").touch()
    (tmp_path / "empty").mkdir()
    return {
        **{name: word for name, word in os.environ.items() if not name.startswith("RADRM_")},
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "RADRM_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "TERM": "xterm",
    }


def shell_says(environment: dict[str, str], *command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        command,
        env=environment,
        cwd=environment["HOME"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash(environment: dict[str, str]) -> None:
    asks = [
        "explai",
        "status --state = running,pe",
        "submit --output = tr",
        "install-slurm-names e",
        "logs ''",
    ]
    script = "\n".join(ASK.format(words=words) for words in asks)
    said = shell_says(environment, "bash", "--norc", "-c", script)
    assert said == ["explain", "running,pending", "train.rad", "empty"]


def test_fish(environment: dict[str, str]) -> None:
    asks = [
        "explai",
        "status --state=running,pe",
        "submit --output=tr",
        "install-slurm-names e",
        "logs ",
    ]
    script = "; ".join(
        ["radrm completion fish | source", *(f"complete -C 'radrm {words}'" for words in asks)]
    )
    said = shell_says(environment, "fish", "-c", script)
    there = [word for word in said if word in ("explain", "--output=train.rad", "empty/")]
    assert there == ["explain", "--output=train.rad", "empty/"]
    assert "--state=running,pending" in said


def test_zsh(environment: dict[str, str], tmp_path: Path) -> None:
    """At a terminal, with the key TAB: zsh completes nowhere else."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    setup = "PS1='> '; autoload -U compinit; compinit -u -D; source <(radrm completion zsh)\n"
    (tmp_path / ".zshrc").write_text(setup)
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-i"],
        env={**environment, "ZDOTDIR": str(tmp_path)},
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    late = threading.Timer(30, shell.kill)
    late.start()
    seen = b""
    try:
        while b"> " not in seen:
            seen += os.read(master, 4096)
        for typed, shown in (
            (b"radrm explai\t", b"explain"),
            (b"\x15radrm submit --output=tr\t", b"train.rad"),
        ):
            seen = b""
            os.write(master, typed)
            while shown not in seen:
                seen += os.read(master, 4096)
    except OSError:  # how Linux says that the other side has closed
        raise AssertionError(seen) from None
    finally:
        late.cancel()
        shell.kill()
        shell.wait()
        os.close(master)


def test_it_imports_little(environment: dict[str, str]) -> None:
    words = "completion", "bash", "--", "logs", ""
    found = imported_by("from radrm.cli import main; main.main()", *words, env=environment)
    assert "radrm.cli.completion.line" in found and found.isdisjoint(HEAVY)


def test_another_shell_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["radrm", "completion", "tcsh"])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit):
        main()
    assert "'tcsh' is not bash, zsh or fish" in capsys.readouterr().err
