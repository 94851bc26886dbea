"""Envelopes: what is acknowledged is on disk, and nothing else is taken for one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import BadFile, StoreError
from radrm.host.spool import MAX_BYTES, Envelope, Spool
from radrm.host.tickets import is_ticket, new_ticket


def envelope(**changes: object) -> Envelope:
    fields: dict[str, object] = {
        "ticket": new_ticket(),
        "file": "/home/ann/a.rad",
        "script": "#!/bin/sh\necho hi\n",
        "command": None,
        "options": {"gpus": "1"},
        "cwd": "/home/ann",
        "umask": 0o022,
        "environment": {"PATH": "/bin", "ODD": "\udcff"},
        "submitted_s": 1.5,
    }
    return Envelope(**{**fields, **changes})  # type: ignore[arg-type]


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
    found = list(spool.arrivals())
    by_ticket = sorted([first, second], key=lambda e: e.ticket)
    assert [a.envelope for a in found] == by_ticket
    assert {a.uid for a in found} == {os.getuid()}
    for arrival in found:
        spool.remove(arrival.name)
    assert names(spool) == []
    spool.remove(found[0].name)


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


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (link, "cannot be opened"),
    "two names": (hard_link, "2 names"),
    "a folder": (lambda p: p.mkdir(), "not a regular file"),
    "a FIFO": (lambda p: os.mkfifo(p, 0o600), "not a regular file"),
    "readable by others": (lambda p: p.write_text("x"), "others may read"),
    "empty": (lambda p: private(p, b""), "not an envelope"),
    "binary": (lambda p: private(p, bytes(range(256))), "not an envelope"),
    "deep": (lambda p: private(p, b"[" * 100_000), "not an envelope"),
    "another version": (lambda p: private(p, b'{"radrm_envelope": 99}'), "this version"),
    "too large": (lambda p: (private(p, b""), os.truncate(p, MAX_BYTES + 1)), "larger than"),
    "another's ticket": (lambda p: private(p, envelope().to_bytes()), "another's"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_envelope_is_named_and_set_aside(
    spool: Spool, tmp_path: Path, kind: str
) -> None:
    make, words = HOSTILE[kind]
    name = f"{new_ticket()}.job"
    make(Path(spool.path) / name)
    good = envelope()
    spool.put([good])
    found = {a.name: a for a in spool.arrivals()}
    assert words in (found[name].wrong or "")
    assert found[f"{good.ticket}.job"].envelope == good
    spool.set_aside(name, str(tmp_path / "refused"))
    assert len(os.listdir(tmp_path / "refused")) == 1
    assert name not in names(spool)


def test_a_raw_job_file_is_told_how_to_be_submitted(spool: Spool) -> None:
    private(Path(spool.path) / "train.rad", b"#!/bin/sh\necho hi\n")
    (found,) = spool.arrivals()
    assert "radrm submit" in (found.wrong or "")


def test_a_draft_that_was_left_behind_is_not_looked_at(spool: Spool) -> None:
    private(Path(spool.path) / f".{new_ticket()}", b"half")
    assert list(spool.arrivals()) == []


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
        ("environment", {"A": 1}),
        ("environment", None),
        ("submitted_s", "now"),
        ("summary", 5),
        ("summary", "a\0b"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(field: str, value: object) -> None:
    document = json.loads(envelope().to_bytes())
    with pytest.raises(BadFile):
        Envelope.from_bytes(json.dumps({**document, field: value}).encode())


def test_an_envelope_without_a_summary_is_one_still() -> None:
    """Such lie in the spools of earlier releases."""
    document = json.loads(envelope().to_bytes())
    del document["summary"]
    assert Envelope.from_bytes(json.dumps(document).encode()).summary is None


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(BadFile):
        Envelope.from_bytes(data)


def test_only_what_a_daemon_would_take_is_not_too_large() -> None:
    assert not envelope(script="x" * 2**20).too_large
    assert not envelope(environment={"A": "x" * 2**21}).too_large
    assert envelope(script="\udcff" * 2**20, summary="\udcff" * 2**20).too_large
