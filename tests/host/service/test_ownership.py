"""Who besides root can change a file. A table of every way, on files of the test's own user."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from radrm.host.service.ownership import Fault, Ownership

ME = frozenset({0, os.getuid()})
OTHER = 4_000_000


def owned(*paths: Path) -> Callable[[str], os.stat_result]:
    """`lstat` of a system in which another user owns these paths."""
    theirs = set(map(str, paths))

    def lstat(path: str) -> os.stat_result:
        found = os.lstat(path)
        if path not in theirs:
            return found
        return os.stat_result([*found[:4], OTHER, *found[5:]])

    return lstat


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a package, and links to it: one absolute, one relative."""
    tmp_path.chmod(0o755)
    (tmp_path / "real" / "package").mkdir(parents=True)
    (tmp_path / "real" / "package" / "code.py").write_text("")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "links" / "relative").symlink_to("../links/absolute/package")
    for path in tmp_path.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path


WAYS = ("real/package/code.py", "links/absolute/package/code.py", "links/relative/code.py")


@pytest.mark.parametrize("way", WAYS)
def test_a_sound_way(place: Path, way: str) -> None:
    ownership = Ownership(ME)
    assert ownership.way(str(place / way)) is None
    assert ownership.way(str(place / way)) is None  # and again from memory
    assert ownership.tree(str(place / way)) is None
    assert ownership.tree(str(place)) is None


@pytest.mark.parametrize(
    ("way", "wrong"),
    [
        (WAYS[0], "real/package/code.py"),
        (WAYS[0], "real/package"),
        (WAYS[0], "real"),
        (WAYS[1], "links"),
        (WAYS[1], "links/absolute"),
        (WAYS[1], "real"),
        (WAYS[2], "links/relative"),
        (WAYS[2], "links/absolute"),
        (WAYS[2], "real/package/code.py"),
    ],
)
def test_another_owner_anywhere_on_the_way_is_found(place: Path, way: str, wrong: str) -> None:
    found = Ownership(ME, owned(place / wrong)).way(str(place / way))
    assert found == Fault(str(place / wrong), f"belongs to user {OTHER}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", ["real/package/code.py", "real/package", "real"])
@pytest.mark.parametrize(("bits", "who"), [(0o020, "group"), (0o002, "all")])
def test_a_mode_that_lets_others_write_is_found(
    place: Path, way: str, wrong: str, bits: int, who: str
) -> None:
    path = place / wrong
    path.chmod(stat.S_IMODE(path.stat().st_mode) | bits)
    found = Ownership(ME).way(str(place / way))
    assert (found.path, found.mode_only) == (str(path), True)
    assert f"writable by {who}" in found.why


def test_a_sticky_file_is_as_open_as_any(place: Path) -> None:
    (place / WAYS[0]).chmod(0o1666)
    assert Ownership(ME).way(str(place / WAYS[0])) is not None


def test_a_sticky_folder_may_lie_on_the_way_and_may_not_hold_code(place: Path) -> None:
    folder = place / "real"
    folder.chmod(0o1777)
    assert Ownership(ME).way(str(folder / "package" / "code.py")) is None
    assert Ownership(ME).way(str(folder)) is None
    found = Ownership(ME).tree(str(place / "links" / "absolute"))
    assert found == Fault(str(folder), "is writable by all (mode 1777)")
    theirs = Ownership(ME, owned(folder / "package"))
    assert theirs.way(str(folder / "package" / "code.py")) is not None


def test_what_must_last_lies_below_no_sticky_folder(place: Path) -> None:
    """After a reboot or a clean-up of such a folder anybody can make what lay there."""
    folder = place / "real"
    folder.chmod(0o1777)

    def lstat(path: str) -> os.stat_result:  # the tests themselves may lie in /tmp
        found = os.lstat(path)
        above = os.path.join(place, "").startswith(os.path.join(path, ""))
        return os.stat_result((found.st_mode & ~0o022, *found[1:])) if above else found

    found = Ownership(ME, lstat, lasting=True).way(str(folder / "package" / "code.py"))
    assert found == Fault(str(folder), "is writable by all (mode 1777)")
    folder.chmod(0o755)
    assert Ownership(ME, lstat, lasting=True).way(str(folder / "package" / "code.py")) is None


def test_what_does_not_exist_must_not_be_made_by_others(place: Path) -> None:
    assert Ownership(ME).way(str(place / "none" / "deeper")) is None
    assert Ownership(ME).tree(str(place / "none")) is None
    assert Ownership(ME).way(str(place / "real/package/code.py/below")) is None
    (place / "real").chmod(0o1777)
    found = Ownership(ME).way(str(place / "real" / "none"))
    assert found == Fault(str(place / "real"), "is writable by all (mode 1777)")
    (place / "dangling").mkdir(0o755)
    (place / "dangling" / "link").symlink_to("../real/none")
    assert Ownership(ME).tree(str(place / "dangling")) == found


@pytest.mark.parametrize("wrong", ["deep/er/x.py", "deep/er", "deep/link"])
def test_a_tree_is_looked_at_whole(place: Path, wrong: str) -> None:
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "x.py").write_text("")
    (place / "deep" / "link").symlink_to("er")
    assert Ownership(ME, owned(place / wrong)).tree(str(place / "deep")).path == str(place / wrong)


def test_a_tree_goes_on_where_its_links_lead(place: Path) -> None:
    """Python imports through them, too. A circle of links ends."""
    (place / "top").mkdir()
    (place / "top" / "package").symlink_to("../real/package")
    (place / "real" / "package" / "up").symlink_to("../../top")
    assert Ownership(ME).tree(str(place / "top")) is None
    wrong = place / "real" / "package" / "code.py"
    assert Ownership(ME, owned(wrong)).tree(str(place / "top")).path == str(wrong)


def test_links_without_end(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    found = Ownership(ME).way(str(place / "a"))
    assert "more than 40 links" in found.why


def test_dots_are_followed_as_the_kernel_does(place: Path) -> None:
    """`..` behind a link is the parent of where it leads."""
    way = f"{place}/links/relative/../package/./code.py"
    assert os.path.samefile(way, place / WAYS[0])
    assert Ownership(ME, owned(place / WAYS[0])).way(way).path == str(place / WAYS[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_real_owners(place: Path) -> None:
    os.chown(place / "links" / "absolute", OTHER, OTHER, follow_symlinks=False)
    found = Ownership().way(str(place / WAYS[2]))
    assert found == Fault(f"{place}/links/absolute", f"belongs to user {OTHER}")
