"""Which files belong into a copy: as git says, and without git all but `.git`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from radrm.errors import BadFile
from radrm.host import snapshots
from radrm.host.snapshots import files_of

TREE = {
    ".gitignore": "data/\n*.log\n!keep.log\n",
    "main.py": "x",
    "pkg/mod.py": "x",
    "pkg/.gitignore": "local.*\n",
    "pkg/local.cfg": "x",
    "local.cfg": "x",
    "data/big": "x",
    "train.log": "x",
    "keep.log": "x",
    "radrm-12.out": "x",
    "radrm-12_3.attempt2.err": "x",
    "radrm-notes.out": "x",
    "name with\nline": "x",
}


def tree(root: Path, files: Mapping[str, str] = TREE) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


def names(root: Path) -> list[str]:
    return list(files_of(str(root)))


def test_gitignore_is_honoured(tmp_path: Path) -> None:
    """Tracked files count though they are ignored; removed ones, and radrm's logs, do not."""
    tree(tmp_path)
    git(tmp_path, "init", "-q")
    tree(tmp_path, {"data/tracked": "x", "gone": "x"})
    git(tmp_path, "add", "-f", "data/tracked", "gone", "main.py")
    (tmp_path / "gone").unlink()
    assert names(tmp_path) == [
        *(".gitignore", "data/tracked", "keep.log", "local.cfg", "main.py", "name with\nline"),
        *("pkg/.gitignore", "pkg/mod.py", "radrm-notes.out"),
    ]
    assert names(tmp_path / "pkg") == [".gitignore", "mod.py"], "a folder within a repository"


def test_another_repository_in_the_environment_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of git."""
    here, other = tree(tmp_path / "here", {"a": "x"}), tree(tmp_path / "other", {"b": "x"})
    git(here, "init", "-q")
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert names(here) == ["a"]


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


def test_a_repository_in_a_repository_is_taken_whole(tmp_path: Path) -> None:
    tree(tmp_path, {"a": "x", "sub/b": "x"})
    git(tmp_path, "init", "-q")
    git(tmp_path / "sub", "init", "-q")
    assert names(tmp_path) == ["a", "sub/b"]


def test_what_is_too_much_is_refused_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"a": "x", "b": "x"})
    monkeypatch.setattr(snapshots, "MOST_FILES", 2)
    assert len(names(tmp_path)) == 2
    tree(tmp_path, {"c": "x"})
    with pytest.raises(BadFile, match=r"has more than 2 files, which is the most; list what"):
        names(tmp_path)
    monkeypatch.setattr(snapshots, "MOST_FILES", 3)
    os.truncate(tmp_path / "a", snapshots.MOST_BYTES - 2)
    assert len(names(tmp_path)) == 3
    os.truncate(tmp_path / "a", snapshots.MOST_BYTES + (5 << 20))
    with pytest.raises(BadFile, match=r"have 517 MiB, and 512 MiB is the most"):
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


def test_nothing_to_copy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="has no files to copy; name another"):
        names(tmp_path)
    with pytest.raises(BadFile, match=r"cannot read the folder .*/no: No such file"):
        names(tmp_path / "no")
    git(tmp_path, "init", "-q")
    tree(tmp_path, {"sub/a.log": "x"})
    (tmp_path / ".git/info/exclude").write_text("*.log\n")
    with pytest.raises(BadFile, match="has no files to copy; name another"):
        names(tmp_path)
