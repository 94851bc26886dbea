"""The state of each checkpoint, on disk: `state-ID.json` in a folder of the job's user.

A state is written before the checkpoint that names it gets its name, and removed after it. So a
checkpoint with a name has a state; a state without a checkpoint is left from a crash, and goes
when the next checkpoint is complete. The id of a checkpoint begins with a number that grows.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Collection
from typing import Any

from radrm.elastic.radrun.shards.book import BookError, Terms
from radrm.host.storage.files import write_durably

VERSION = 1
MOST_BYTES = 4 * 1024 * 1024
MOST_FILES = 10_000
_MOST_SHOWN = 200
_NAME = re.compile(r"state-((\d{6,12})-[0-9a-f]{8})\.json")
_ID = re.compile(r"\d{6,12}-[0-9a-f]{8}")
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError, BookError)


class BadState(Exception):
    """A state is missing or cannot be read. The text is one line."""


class Store:
    """The states in one folder, which is made when it is needed. Methods raise OSError."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)

    def new_id(self, newest: object = None) -> str:
        """Return an id greater than that of every state here, and of the `newest` checkpoint."""
        numbers = [int(found[2]) for found in self._names()]
        if isinstance(newest, str) and _ID.fullmatch(newest):
            numbers.append(int(newest.split("-")[0]))
        return f"{max(numbers, default=0) + 1:06d}-{secrets.token_hex(4)}"

    def write(self, identity: str, state: dict[str, Any]) -> None:
        """Store a state so that it is whole after any crash, or not there."""
        data = json.dumps({**state, "version": VERSION, "id": identity}).encode()
        if len(data) > MOST_BYTES:
            raise OSError(0, f"the state of the shards has {len(data)} bytes, at most {MOST_BYTES}")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        write_durably(self._path(identity), data)

    def read(self, identity: str) -> dict[str, Any]:
        """Return a state. Raises BadState if it is missing, torn or of another version."""
        if not _ID.fullmatch(identity):
            raise BadState("the checkpoint's name holds no id")
        path = self._path(identity)
        try:
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(opened, "rb") as file:
                data = file.read(MOST_BYTES + 1)
            state = json.loads(data)
            if len(data) > MOST_BYTES or state["version"] != VERSION or state["id"] != identity:
                raise ValueError("another version or id")
            _check(state)
        except (OSError, *_DAMAGE) as error:
            cause = (
                error.strerror
                if isinstance(error, OSError)
                else f"it is damaged ({str(error)[:_MOST_SHOWN]})"
            )
            raise BadState(f"cannot use {path}: {cause}") from None
        return dict(state)

    def keep(self, identities: Collection[str]) -> None:
        """Remove the states of all checkpoints but these."""
        for found in self._names():
            if found[1] not in identities:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._folder, found[0]))

    def _path(self, identity: str) -> str:
        return os.path.join(self._folder, f"state-{identity}.json")

    def _names(self) -> list[re.Match[str]]:
        names: list[re.Match[str]] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                found = _NAME.fullmatch(entry.name)
                if found:
                    names.append(found)
                if len(names) >= MOST_FILES:
                    break
        return names


def _check(state: dict[str, Any]) -> None:
    """Raise an error unless a state has the shape that the book reads."""
    if type(state["step"]) is not int or state["step"] < 0:
        raise ValueError("its step is not a number")
    for each in state["datasets"].values():
        terms = Terms(each["samples"], each["shard"], each["epochs"], each["seed"])
        limit, before = terms.samples * terms.epochs, 0
        for first, last in each["consumed"]:
            if not (type(first) is type(last) is int and before <= first < last <= limit):
                raise ValueError("its ranges are not in order")
            before = last
    for name, first, count in state["failures"]:
        if not (type(name) is str and type(first) is type(count) is int):
            raise ValueError("its failures cannot be read")
