"""Envelopes: what is acknowledged is on disk, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile, Refused, StoreError
from radrm.host.storage import spool as spools
from radrm.host.storage.arrivals import Arrivals, Turns
from radrm.host.storage.spool import MAX_BYTES, Envelope, Spool, kind_of
from radrm.host.storage.tickets import is_ticket, new_ticket
from tests.host.storage.envelopes import all_of, arrivals, envelope


def names(spool: Spool) -> list[str]:
    return sorted(os.listdir(spool.path))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    (tmp_path / "spool").mkdir()
    return Spool(str(tmp_path / "spool"))


def test_what_is_put_arrives_as_it_was(spool: Spool) -> None:
    first = envelope(summary="Total params: 25,557,032\n")
    second = envelope(script=None, command=("echo", "a b", "\udc80"))
    spool.put([first, second])
    found = all_of(spool)
    by_ticket = sorted([first, second], key=lambda e: e.ticket)
    assert [a.envelope for a in found] == by_ticket
    assert {a.uid for a in found} == {os.getuid()}
    for arrival in found:
        arrivals(spool).remove(arrival)
    assert names(spool) == []
    arrivals(spool).remove(found[0])


def test_a_small_envelope_takes_little_memory(spool: Spool) -> None:
    """A buffer of the largest size for each file left the daemon's heap larger for good."""
    spool.put([envelope()])
    all_of(spool)
    tracemalloc.start()
    try:
        assert len(all_of(spool)) == 1
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES // 8
    finally:
        tracemalloc.stop()


def test_tickets_sort_by_time_and_differ() -> None:
    tickets = [new_ticket() for _ in range(100)]
    assert len(set(tickets)) == 100
    assert all(is_ticket(t) for t in tickets)
    assert tickets == sorted(tickets)
    assert not is_ticket("8" + "0" * 25) and not is_ticket("U" * 26) and not is_ticket("")


def link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(envelope().to_bytes())
    path.symlink_to(path.with_name("elsewhere"))


def hard_link(path: Path) -> None:
    other = path.parent.parent / "other"
    other.write_bytes(envelope().to_bytes())
    other.chmod(0o600)
    os.link(other, path)


def private(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o600)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "readable by others": (lambda p: p.write_text("x"), "others may read"),
    "empty": (lambda p: private(p, b""), "not an envelope"),
    "binary": (lambda p: private(p, bytes(range(256))), "not an envelope"),
    "deep": (lambda p: private(p, b"[" * 100_000), "not an envelope"),
    "another version": (lambda p: private(p, b'{"radrm_envelope": 99}'), "this version"),
    "too large": (lambda p: (private(p, b""), os.truncate(p, MAX_BYTES + 1)), "larger than"),
    "another's ticket": (lambda p: private(p, envelope().to_bytes()), "another's"),
}
UNTOUCHED: dict[str, Callable[[Path], object]] = {
    "a link": link,
    "two names": hard_link,
    "a folder": lambda p: p.mkdir(),
    "a FIFO": lambda p: os.mkfifo(p, 0o600),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_envelope_is_named_and_set_aside(
    spool: Spool, tmp_path: Path, kind: str
) -> None:
    make, words = REFUSED[kind]
    name = f"{new_ticket()}.job"
    make(Path(spool.path) / name)
    good = envelope()
    spool.put([good])
    found = {a.name: a for a in all_of(spool)}
    assert words in (found[name].wrong or "")
    assert found[f"{good.ticket}.job"].envelope == good
    arrivals(spool).refuse(found[name])
    assert len(os.listdir(tmp_path / "refused")) == 1
    assert names(spool) == [f"{good.ticket}.job"]


@pytest.mark.parametrize("kind", UNTOUCHED)
def test_what_is_no_file_of_one_name_is_left_where_it_is(spool: Spool, kind: str) -> None:
    name = f"{new_ticket()}.job"
    UNTOUCHED[kind](Path(spool.path) / name)
    before = names(spool)
    assert name not in {arrival.name for arrival in all_of(spool)}
    assert arrivals(spool).read(name) is None
    assert names(spool) == before


def test_what_its_owner_has_put_there_since_is_not_removed_for_it(spool: Spool) -> None:
    spool.put([envelope()])
    (found,) = all_of(spool)
    place = Path(spool.path) / found.name
    place.unlink()
    private(place, b"something else")
    arrivals(spool).remove(found)
    arrivals(spool).refuse(found)
    assert place.read_bytes() == b"something else"


def test_refused_files_do_not_follow_a_link(spool: Spool, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "refused").symlink_to(tmp_path / "elsewhere")
    private(Path(spool.path) / f"{new_ticket()}.job", b"x")
    (found,) = all_of(spool)
    with pytest.raises(OSError):
        arrivals(spool).refuse(found)
    assert names(spool) == [found.name] and not os.listdir(tmp_path / "elsewhere")


TICKET = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.mark.parametrize(
    "name, kind",
    [
        (f"{TICKET}.job", "envelope"),
        (f".{TICKET}", "draft"),
        ("train.rad", "foreign"),
        (f"{TICKET}.rad", "foreign"),
        (f".{TICKET}.job", "foreign"),
        (f"{TICKET.lower()}.job", "foreign"),
        (f"{TICKET}.job.bak", "foreign"),
        (".job", "foreign"),
        ("", "foreign"),
        ("\udcff.job", "foreign"),
    ],
)
def test_what_a_name_stands_for(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_foreign_names_are_left_and_told_of_once(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(50):
        (Path(spool.path) / f"somebody's {number}").write_bytes(b"theirs")
    reader = Arrivals(spool.path, "/nowhere")
    for _ in range(5):
        reader.list_anew()
        while reader.list_on():
            pass
    assert len(caplog.records) == 1 and "50 name(s)" in caplog.text
    assert len(names(spool)) == 50 and reader.turns.take() is None


def test_a_folder_of_many_names_is_listed_in_pieces(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.host.storage.arrivals.LISTED_AT_ONCE", 3)
    spool.put([envelope() for _ in range(7)])
    reader = Arrivals(spool.path, "/nowhere")
    reader.list_anew()
    seen = [(reader.list_on(), len(reader.turns)) for _ in range(3)]
    assert seen == [(True, 3), (True, 6), (False, 7)]


DRAFTS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "half written": (lambda p: private(p, envelope().to_bytes()[:50]), True),
    "not even begun": (lambda p: private(p, b""), True),
    "whole": (lambda p: private(p, envelope().to_bytes()), True),
    "of something else": (lambda p: private(p, b"my notes"), False),
    "open to others": (lambda p: p.write_bytes(b""), False),
    "a link": (link, False),
    "of two names": (hard_link, False),
    "a folder": (lambda p: p.mkdir(), False),
    "a FIFO": (lambda p: os.mkfifo(p, 0o600), False),
}


@pytest.mark.parametrize("kind", DRAFTS)
def test_only_an_old_draft_of_a_killed_submit_is_removed(
    spool: Spool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, removed = DRAFTS[kind]
    name = f".{new_ticket()}"
    make(Path(spool.path) / name)
    assert all_of(spool) == [] and name in names(spool), "it may be written at this moment"
    monkeypatch.setattr("radrm.host.storage.arrivals.DRAFT_AGE_S", -60.0)
    assert all_of(spool) == [] and (name not in names(spool)) is removed


def test_users_take_turns_each_by_his_own_tickets() -> None:
    turns = Turns()
    for name, uid in [("a3", 1), ("a1", 1), ("a2", 1), ("b1", 2), ("c1", 3), ("b2", 2)]:
        turns.add(name, uid)
    turns.add("a1", 1)
    turns.first(3)
    served = [turn[0] for turn in iter(turns.take, None)]
    assert served == ["c1", "a1", "b1", "a2", "b2", "a3"]
    assert not turns and "a1" not in turns


def test_of_a_flood_only_the_oldest_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radrm.host.storage.arrivals.KEPT_OF_ONE_USER", 10)
    turns = Turns()
    for number in range(1000, 0, -1):
        turns.add(f"{number:04}", 1)
    assert turns.left_out and len(turns) <= 20
    assert turns.take() == ("0001", 1)


@pytest.mark.parametrize("most", ["MOST_FILES", "MOST_BYTES"])
def test_what_comes_at_once_counts_before_anything_is_written(
    spool: Spool, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "_FEW", 0)
    size = len(envelope().to_bytes())
    monkeypatch.setattr(spools, most, 3 if most == "MOST_FILES" else 4 * size - 1)
    spool.put([envelope()])
    with pytest.raises(Refused, match=r"4 submissions of you.*nothing was submitted.*an array"):
        spool.put([envelope() for _ in range(3)])
    assert len(names(spool)) == 1
    spool.put([envelope() for _ in range(2)])


@pytest.mark.parametrize("most", ["MAX_WAITING", "MAX_WAITING_BYTES"])
def test_a_user_with_too_much_waiting_is_refused_at_submission(
    spool: Spool, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(spool.path) / "foreign").write_bytes(b"x" * 100)
    monkeypatch.setattr(spools, most, 3)
    first = [envelope() for _ in range(5)]
    spool.put(first)
    with pytest.raises(Refused, match=r"5 of your submissions.*the most is.*radrm daemon"):
        spool.put([envelope()])
    assert len(names(spool)) == 6
    for arrival in all_of(spool):
        arrivals(spool).remove(arrival)
    spool.put([envelope()])


def test_no_envelope_goes_through_a_link(spool: Spool, tmp_path: Path) -> None:
    (tmp_path / "spool").rename(tmp_path / "shared")
    (tmp_path / "spool").symlink_to(tmp_path / "shared")
    with pytest.raises(StoreError, match="cannot open the spool"):
        spool.put([envelope()])
    assert not os.listdir(tmp_path / "shared")


def test_a_spool_that_is_not_there_is_said_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="radrm daemon"):
        Spool(str(tmp_path / "none")).put([envelope()])


@pytest.mark.parametrize(
    "field, value",
    [
        ("ticket", "x"),
        ("ticket", None),
        ("script", 5),
        ("script", "a\0b"),
        ("command", ["x"]),
        ("command", []),
        ("options", []),
        ("cwd", "relative"),
        ("umask", 0o7777),
        ("umask", True),
        ("rlimits", {"NOFILE": -2}),
        ("rlimits", {"CPU": 9}),
        ("environment", {"A": 1}),
        ("environment", None),
        ("submitted_s", "now"),
        ("submitted_s", True),
        ("submitted_s", float("nan")),
        ("submitted_s", float("inf")),
        ("submitted_s", 10**400),
        ("options", {"gpus": {"a": 1}}),
        ("options", {"env": [["A=1"]]}),
        ("options", {"time": 10**400}),
        ("summary", 5),
        ("summary", "x" * (2**20 + 1)),
        ("summary", "a\0b"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(field: str, value: object) -> None:
    document = json.loads(envelope().to_bytes())
    with pytest.raises(BadFile):
        Envelope.from_bytes(json.dumps({**document, field: value}).encode())


def test_every_field_may_be_missing() -> None:
    """None of them may raise anything but what refuses the envelope."""
    whole = json.loads(envelope().to_bytes())
    optional = {"file", "command", "summary", "sources", "table", "outer"}
    optional |= {"arguments", "host", "rlimits"}
    for field in whole:
        rest = json.dumps({k: v for k, v in whole.items() if k != field}).encode()
        if field in optional:
            assert Envelope.from_bytes(rest).ticket == whole["ticket"]
        else:
            with pytest.raises(BadFile):
                Envelope.from_bytes(rest)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(BadFile):
        Envelope.from_bytes(data)


def test_only_what_a_daemon_would_take_is_not_too_large() -> None:
    assert not envelope(script="x" * 2**20).too_large
    assert not envelope(environment={"A": "x" * 2**21}).too_large
    assert envelope(script="\udcff" * 2**20, summary="\udcff" * 2**20).too_large
