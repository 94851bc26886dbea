"""Stores that this radrm does not read: each is left as it is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from radrm.errors import StoreError
from radrm.host.storage.schema import SCHEMA_VERSION
from radrm.host.storage.store import Store


@pytest.mark.parametrize(
    "content", [b"this is no database " * 100, b"SQLite format 3\0" + b"x" * 99]
)
def test_a_store_that_cannot_be_read_is_left_as_it_is(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(StoreError, match="left as it is"):
        Store(path)
    assert Path(path).read_bytes() == content


@pytest.mark.parametrize("version", [-1, SCHEMA_VERSION + 1, 99])
def test_a_store_of_another_version_is_left_alone(path: str, version: int) -> None:
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
        before = list(db.iterdump())
    with pytest.raises(StoreError) as refused:
        Store(path)
    line = str(refused.value)
    assert f"has version {version} and this radrm reads version {SCHEMA_VERSION}" in line
    assert "run the radrm that wrote it" in line and "\n" not in line
    with sqlite3.connect(path) as db:
        assert list(db.iterdump()) == before
