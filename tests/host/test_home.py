"""The home's marker: only radrm's own folders are used, and no number is given twice."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from radrm.errors import StoreError
from radrm.host.attempts import folder as attempts
from radrm.host.home import BLOCK, Home
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.spool import Spool
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from radrm.host.watched.folders import UserFolders
from tests.host.storage.envelopes import envelope
from tests.world import World, gpus


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(str(tmp_path / "state"), str(tmp_path / "run"))


def start(paths: Paths, system: bool = False) -> Home:
    """As the daemon does, as far as the folders go."""
    prepare(paths, system)
    home = Home(paths, system)
    home.open_store().close()
    return home


def make_jobs(store: Store, count: int) -> list[int]:
    """Jobs that come and start; their ids."""
    world = World(gpus(8))
    world.scheduler.state.next_serial = store.next_serial()
    world.next_id = store.next_job_id()
    ids = [world.submit(30_000).id for _ in range(count)]
    assert len(world.attempts) == count
    sent = [Submission(1, 1, envelope(ticket=job.ticket)) for job in world.jobs.values()]
    store.save(world.decisions, sent)
    return ids


# ------------------------------------------------------------------ folders


def test_drafts_of_killed_daemons_go_and_nothing_else(paths: Paths) -> None:
    start(paths)
    state, drawn = Path(paths.state), "0123456789ab"
    left = {f".radrm-home.json.{drawn}.tmp"}
    kept = {f".radrm-home.json.{drawn}x.tmp", ".radrm-home.json.tmp", f".mine.{drawn}.tmp"}
    for name in left | kept:
        (state / name).touch()
    start(paths)
    names = set(os.listdir(state))
    assert not left & names and kept <= names


@pytest.mark.parametrize("name", ["spool", "store", "attempts"])
def test_a_link_is_refused_in_one_line_and_nothing_is_touched(
    paths: Paths, tmp_path: Path, name: str
) -> None:
    shared = tmp_path / "shared"
    (shared / "of ann").mkdir(parents=True)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name).symlink_to(shared)
    with pytest.raises(StoreError, match=f"{name} is a symbolic link.*RADRM_HOME"):
        prepare(paths, False)
    with pytest.raises(StoreError, match="RADRM_HOME"):
        Home(paths, False)
    assert [p.name for p in shared.iterdir()] == ["of ann"]


FOREIGN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a file in the spool": ("spool", lambda p: (p / "thesis.tex").touch()),
    "a folder in the spool": ("spool", lambda p: (p / "thesis").mkdir()),
    "a file in the store": ("store", lambda p: (p / "accounts.db").touch()),
    "a folder like a store": ("store", lambda p: (p / "radrm.sqlite").mkdir()),
    "photos": (
        "attempts",
        lambda p: (p / "2024" / "photos").mkdir(parents=True),
    ),
    "a file among the attempts": ("attempts", lambda p: (p / "17").touch()),
    "a word among the attempts": ("attempts", lambda p: (p / "notes").mkdir()),
    "an open mode": ("spool", lambda p: p.chmod(0o755)),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_folder_that_radrm_did_not_make_is_refused(paths: Paths, kind: str) -> None:
    name, make = FOREIGN[kind]
    prepare(paths, False)
    make(Path(paths.state) / name)
    with pytest.raises(StoreError, match=rf"the {name} folder .* was not made by radrm: .*; move"):
        Home(paths, False)
    assert not os.path.exists(f"{paths.state}/radrm-home.json")


def test_what_is_put_into_a_recorded_folder_stops_nobody(paths: Paths) -> None:
    start(paths)
    for kind, (name, make) in FOREIGN.items():
        if kind != "a folder like a store":
            make(Path(paths.state) / name)
    start(paths)


def test_a_new_home_with_submissions_is_adopted(paths: Paths) -> None:
    """`radrm submit` makes the folders where no daemon has run yet."""
    prepare(paths, False)
    Spool(paths.spool).put([envelope()])
    start(paths)


@pytest.mark.parametrize("system", [True, False])
def test_a_copied_home_is_adopted_with_its_watched_folders(paths: Paths, system: bool) -> None:
    """All its folders are others then, as after a move to another disk."""
    start(paths, system)
    if system:
        UserFolders(paths.users).make(os.getuid(), os.getgid())
    else:
        for name in ("done", "refused"):
            (Path(paths.spool) / name).mkdir()
        (Path(paths.spool) / "train.rad").touch()
    os.rename(paths.state, f"{paths.state}.old")
    shutil.copytree(f"{paths.state}.old", paths.state)
    start(paths, system)


def test_in_a_systems_spool_others_may_have_put_anything(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("to give a file away takes root")
    prepare(paths, True)
    theirs = Path(paths.spool) / "theirs"
    theirs.touch()
    os.chown(theirs, 4242, 4242)
    start(paths, system=True)
    os.unlink(f"{paths.state}/radrm-home.json")
    shutil.rmtree(paths.store)
    (Path(paths.spool) / "mine").touch()
    prepare(paths, True)
    with pytest.raises(StoreError, match="holds 'mine'"):
        Home(paths, True)


def test_another_folder_in_the_place_of_a_recorded_one_is_looked_at(paths: Paths) -> None:
    start(paths)
    spool = Path(paths.spool)
    spool.rename(spool.with_name("old"))
    start(paths)  # made anew, empty
    spool.rename(spool.with_name("old too"))
    spool.mkdir(0o700)
    (spool / "thesis.tex").touch()
    with pytest.raises(StoreError, match="thesis"):
        Home(paths, False)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version": 99}', b"\xff", b"[" * 100_000])
def test_a_marker_that_cannot_be_read_is_written_anew(
    paths: Paths, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    start(paths)
    Path(f"{paths.state}/radrm-home.json").write_bytes(data)
    start(paths)
    assert "radrm replaces it" in caplog.text
    assert json.loads(Path(f"{paths.state}/radrm-home.json").read_bytes())["version"] == 1


def test_on_another_disk_after_a_reboot_it_is_the_same_home(paths: Paths) -> None:
    """Device numbers are given anew at every boot."""
    start(paths)
    marker = Path(f"{paths.state}/radrm-home.json")
    document = json.loads(marker.read_bytes())
    for folder in document["folders"].values():
        folder["device"] += 1
    marker.write_text(json.dumps(document))
    (Path(paths.spool) / "thesis.tex").touch()
    start(paths)


# ------------------------------------------------------------------ numbers


def delete_store(paths: Paths, _: Path) -> None:
    shutil.rmtree(paths.store)
    prepare(paths, False)


def empty_store(paths: Paths, _: Path) -> None:
    for path in Path(paths.store).iterdir():
        path.unlink()
    Path(paths.database).touch(0o600)


def restore_copy(paths: Paths, copy: Path) -> None:
    for path in Path(paths.store).iterdir():
        path.unlink()
    shutil.copy(copy, paths.database)


@pytest.mark.parametrize("lose", [delete_store, empty_store, restore_copy])
def test_after_a_lost_store_no_number_is_given_twice_and_it_is_said(
    paths: Paths,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    lose: Callable[[Paths, Path], None],
) -> None:
    start(paths)
    copy = tmp_path / "copy"
    shutil.copy(paths.database, copy)
    given: list[int] = []
    serials = 0
    for _ in range(2):
        store = Home(paths, False).open_store()
        given += make_jobs(store, 3)
        serials = store.next_serial() - 1
        store.close()
    assert serials >= 6
    lose(paths, copy)
    store = Home(paths, False).open_store()
    assert "new job ids start at" in caplog.text and "restore a copy" in caplog.text
    assert store.kept().next_serial > serials
    later = make_jobs(store, 2)
    assert min(later) > max(given) and max(later) <= max(given) + BLOCK + 2
    store.close()
    caplog.clear()
    store = Home(paths, False).open_store()
    assert (
        make_jobs(store, 1) == [max(later) + 1] and "not the one that was here" not in caplog.text
    )


def test_without_a_marker_the_folders_tell_which_numbers_were_given(
    paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(paths, False)
    (Path(paths.checkpoints) / "41").mkdir()
    (Path(paths.attempts) / "7").mkdir()
    store = Home(paths, False).open_store()
    assert (store.next_job_id(), store.kept().next_serial) == (42, 8)
    assert "deleted, or an older copy" in caplog.text
    store.close()


def test_numbers_are_reserved_before_they_are_given(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One write of the marker for many jobs, and none that came too late."""
    monkeypatch.setattr("radrm.host.home.BLOCK", 4)
    start(paths)
    marker = Path(f"{paths.state}/radrm-home.json")
    store = Home(paths, False).open_store()
    written = set()
    for _ in range(20):
        make_jobs(store, 1)
        document = json.loads(marker.read_bytes())["numbers"]
        assert document["jobs"][1] >= store.next_job_id()
        assert document["serials"][1] >= store.next_serial()
        written.add(marker.stat().st_ino)
    store.close()
    assert len(written) <= 6


def test_without_room_for_the_marker_nothing_is_stored(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.host.home.BLOCK", 2)
    start(paths)
    store = Home(paths, False).open_store()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    make_jobs(store, 1)
    monkeypatch.setattr("radrm.host.home.write_durably", full)
    with pytest.raises(StoreError, match=r"radrm-home\.json: No space left on device; free"):
        for _ in range(3):
            make_jobs(store, 1)
    assert store.next_job_id() == 3
    monkeypatch.undo()
    assert make_jobs(store, 1) == [3]
    store.close()


def test_a_full_disk_at_the_start_ends_nothing(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start(paths)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("radrm.host.home.write_durably", full)
    store = Home(paths, False).open_store()
    assert "No space left" in caplog.text and make_jobs(store, 1) == [1]
    store.close()


# ------------------------------------------------------------------ removing


def test_of_an_attempts_folder_only_radrms_own_files_go(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in ("launch.json", "lock", "claim", "script", "start.json", ".exit.json.ab.tmp"):
            (folder / name).touch()
    (tmp_path / "2" / "thesis.tex").touch()
    (tmp_path / "3").symlink_to(tmp_path / "2")
    attempts.remove_folder(str(tmp_path), "1")
    for name in ("2", "3", "4"):
        with pytest.raises(OSError):
            attempts.remove_folder(str(tmp_path), name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["2", "3"]
    assert [p.name for p in (tmp_path / "2").iterdir()] == ["thesis.tex"]


def test_nothing_is_removed_through_a_linked_parent(tmp_path: Path) -> None:
    (tmp_path / "real" / "1").mkdir(parents=True)
    (tmp_path / "attempts").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        attempts.remove_folder(str(tmp_path / "attempts"), "1")
    assert (tmp_path / "real" / "1").is_dir()
