"""Copies of the code: which files belong into one, and which copies are removed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from radrm.client import snapshots
from radrm.client.snapshots import Copies, files_of, remove
from radrm.errors import BadFile, Refused, Unreachable
from radrm.host.storage.paths import Paths
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.radfile import wrap_command
from tests.cli.fakes import Script


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


def names(root: Path) -> list[str]:
    return list(files_of(str(root)))


def test_gitignore_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracked files count though they are ignored; removed ones, and radrm's logs, do not. A
    repository within is taken whole. Another one in the environment (a hook of git) is not asked.
    """
    plain = ("main.py", "pkg/mod.py", "pkg/local.cfg", "local.cfg", "data/big", "train.log")
    odd = ("keep.log", "radrm-12.out", "radrm-12_3.attempt2.err", "radrm-notes.out", "a with\nline")
    tree(tmp_path, dict.fromkeys((*plain, *odd, "sub/b"), "x"))
    ignored = {".gitignore": "data/\n*.log\n!keep.log\n", "pkg/.gitignore": "local.*\n"}
    git(tree(tmp_path, ignored), "init", "-q")
    git(tmp_path / "sub", "init", "-q")
    tree(tmp_path, {"data/tracked": "x", "gone": "x"})
    git(tmp_path, "add", "-f", "data/tracked", "gone", "main.py")
    (tmp_path / "gone").unlink()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "sub/.git"))
    assert names(tmp_path) == [
        *(".gitignore", "a with\nline", "data/tracked", "keep.log", "local.cfg", "main.py"),
        *("pkg/.gitignore", "pkg/mod.py", "radrm-notes.out", "sub/b"),
    ]
    assert names(tmp_path / "pkg") == [".gitignore", "mod.py"], "a folder within a repository"


@pytest.mark.parametrize("path", ["/nowhere", os.environ["PATH"]])
def test_without_git_all_but_its_folder_is_taken(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links are not followed, and pipes are left out."""
    tree(tmp_path / "here", {"a": "x", "b/c": "x", ".git/config": "no repository"})
    (tmp_path / "here/out").symlink_to("/etc")
    os.mkfifo(tmp_path / "here/pipe")
    monkeypatch.setenv("PATH", path)
    assert names(tmp_path / "here") == ["a", "b/c", "out"]


def test_too_much_and_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for empty in (tmp_path, tmp_path / "no"):
        with pytest.raises(BadFile, match="has no files to copy; name another"):
            names(empty)
    monkeypatch.setattr(snapshots, "MOST_FILES", 2)
    assert len(names(tree(tmp_path, {"a": "x", "b": "x"}))) == 2
    with pytest.raises(BadFile, match=r"has more than 2 files; list what"):
        names(tree(tmp_path, {"c": "x"}))
    monkeypatch.setattr(snapshots, "MOST_FILES", 3)
    os.truncate(tmp_path / "a", snapshots.MOST_MIB << 20)
    assert len(names(tmp_path)) == 3
    os.truncate(tmp_path / "a", snapshots.MOST_MIB + 5 << 20)
    with pytest.raises(BadFile, match=r"has 517 MiB, and the most is 512"):
        names(tmp_path)


def test_a_folder_without_end_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {f"radrm-{number}.out": "x" for number in range(3)})
    monkeypatch.setattr(snapshots, "_MOST_LISTED", 2)
    with pytest.raises(BadFile, match="too many files to look at; list what"):
        names(tmp_path)
    git(tmp_path, "init", "-q")
    monkeypatch.setattr(snapshots, "_MOST_OF_GIT", 20)
    with pytest.raises(BadFile, match="git lists too many files"):
        names(tmp_path)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    found = Paths(str(tmp_path / "state"), str(tmp_path / "run"))
    os.makedirs(found.spool)
    code = tree(tmp_path / "code", {"main.py": "one", "pkg/sub/b.py": "two", "run.sh": "#!/bin/sh"})
    (code / "run.sh").chmod(0o755)
    monkeypatch.chdir(code)
    monkeypatch.setattr(snapshots, "KEPT", 1)
    return found


def copy(paths: Paths, spool: str | None = None, **raw: Any) -> tuple[str, Path]:
    """Make a copy of the working directory. Returns its job's ticket, and where that runs."""
    of_one_submit = Copies(paths)
    of_one_submit._spool = spool or paths.spool
    job_file = wrap_command(["true"], {"snapshot": ".", **raw})
    made = of_one_submit.of(job_file)
    assert of_one_submit.of(job_file) is made, "one copy for all jobs of one folder"
    ticket = new_ticket()
    of_one_submit.make([{"copy": made, "envelope": SimpleNamespace(ticket=ticket)}])
    return ticket, Path(made.run_folder(job_file))


def copies(paths: Paths) -> list[str]:
    return sorted(os.listdir(f"{paths.state}/snapshots"))


def sweep(paths: Paths, answer: Any) -> None:
    Copies(paths).sweep(Script(page=[answer]))


def test_a_copy_is_the_same_and_its_own(paths: Paths) -> None:
    """Links lead where they led: within the copy to the copy, out of it to the original."""
    code = Path.cwd()
    (code / "pkg/in").symlink_to("../main.py")
    (code / "pkg/out").symlink_to("../../data")
    (code / "absolute").symlink_to("/etc/passwd")
    _, files = copy(paths)
    (code / "main.py").write_text("changed")
    assert (files / "main.py").read_text() == "one" and (files / "pkg/sub/b.py").exists()
    assert os.access(files / "run.sh", os.X_OK)
    assert (files / "run.sh").stat().st_mtime_ns == (code / "run.sh").stat().st_mtime_ns
    assert files.parent.parent.stat().st_mode & 0o077 == 0
    assert (files / "pkg/in").resolve() == files / "main.py"
    assert os.readlink(files / "pkg/out") == str(code.parent / "data")
    assert os.readlink(files / "absolute") == "/etc/passwd"


def test_a_job_runs_at_its_place_in_the_copy(paths: Paths) -> None:
    _, folder = copy(paths, chdir="pkg/sub")
    assert os.listdir(folder) == ["b.py"] and str(folder).startswith(paths.state)
    _, folder = copy(paths, snapshot="pkg")
    assert os.listdir(folder) == ["sub"], "the submit directory is not in it"


def test_a_file_that_went_meanwhile_is_left_out(paths: Paths) -> None:
    of_one_submit = Copies(paths)
    made = of_one_submit.of(wrap_command(["true"], {"snapshot": "."}))
    Path("main.py").unlink()
    of_one_submit.make([{"copy": made, "envelope": SimpleNamespace(ticket="T")}])
    assert sorted(os.listdir(f"{made.folder}/files")) == ["pkg", "run.sh"]


def test_a_copy_that_fails_leaves_nothing(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.copy2", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(BadFile, match=r"No space left on device; nothing was submitted"):
        copy(paths)
    assert copies(paths) == []


def test_ended_copies_go_but_the_newest(paths: Paths) -> None:
    """A waiting job, one that the daemon has not taken in and one of another daemon keep theirs."""
    states: dict[str, Any] = {}
    for answer in ({"COMPLETED": 1}, {"COMPLETED": 2, "PENDING": 1}, Refused(""), {"FAILED": 1}):
        states[copy(paths)[0]] = answer
    copy(paths, spool="/elsewhere")
    first, *kept = copies(paths)
    (unknown,) = [ticket for ticket, answer in states.items() if isinstance(answer, Refused)]
    envelope = Path(paths.spool, f"{unknown}.job")
    envelope.touch()

    def page(words: dict[str, Any]) -> dict[str, Any]:
        answer = states[words["jobs"][0]]
        if isinstance(answer, Exception):
            raise answer
        return {"counts": answer}

    sweep(paths, page)
    assert copies(paths) == kept and first not in kept
    envelope.unlink()
    sweep(paths, page)
    assert len(copies(paths)) == len(kept) - 1, "its job is gone from spool and store"
    sweep(paths, Unreachable("away"))
    assert len(copies(paths)) == len(kept) - 1, "a daemon that does not answer keeps all"


def test_only_what_was_copied_is_removed(paths: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    """What a job wrote or changed stays, but for Python's caches, and is named."""
    _, whole = copy(paths)
    tree(whole, {"pkg/sub/__pycache__/b.cpython-311.pyc": ""})
    _, used = copy(paths)
    tree(used, {"main.py": "the job's", "pkg/result": "model", "new/deep/result": "model"})
    copy(paths)
    sweep(paths, {"counts": {"COMPLETED": 1}})
    assert not whole.parent.exists() and Path("main.py").exists()
    left = sorted(str(p.relative_to(used)) for p in used.rglob("*") if p.is_file())
    assert left == ["main.py", "new/deep/result", "pkg/result"]
    assert f"what its jobs wrote stays in {used}" in capsys.readouterr().err
    assert not (used.parent / "note.json").exists(), "it is nobody's copy any more"
    assert remove(str(whole.parent), []), "two submissions may remove one copy"


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"spool": 1}', "\ud800"])
def test_a_note_that_was_changed_keeps_its_copy(paths: Paths, note: str) -> None:
    copy(paths)
    (Path(paths.state, "snapshots") / copies(paths)[0] / "note.json").write_bytes(
        note.encode("utf-8", "surrogatepass")
    )
    copy(paths)
    sweep(paths, {"counts": {"COMPLETED": 1}})
    assert len(copies(paths)) == 2


def test_removing_follows_no_link_to_the_originals(paths: Paths) -> None:
    """A file that is the same there, in size and time, must not be taken for the copy."""
    code, (_, files) = Path.cwd(), copy(paths)
    copied = ["main.py", "pkg/sub/b.py", "run.sh"]
    (files / "pkg/sub/b.py").unlink()
    (files / "pkg/sub").rmdir()
    (files / "pkg/sub").symlink_to(code / "pkg/sub")
    moved = files.rename(files.with_name("elsewhere"))
    files.symlink_to(code)
    note = (files.parent / "note.json").read_bytes()
    remove(str(files.parent), copied)
    assert (code / "main.py").exists() and moved.exists()
    files.unlink()
    moved.rename(files)
    (files.parent / "note.json").write_bytes(note)
    remove(str(files.parent), copied)
    assert (code / "pkg/sub/b.py").read_text() == "two" and not (files / "main.py").exists()
