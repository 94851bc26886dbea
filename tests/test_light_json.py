"""The JSON of the socket is that of the package `json`, with its C code and without."""

from __future__ import annotations

import importlib.util
import json
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm import light_json

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    _LEAVES, lambda own: st.lists(own) | st.dictionaries(st.text(), own), max_leaves=8
)


def _without(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module on a Python whose C code is another."""
    monkeypatch.setitem(sys.modules, "_json", None)
    spec = importlib.util.find_spec("radrm.light_json")
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(params=["with", "without"])
def light(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return light_json if request.param == "with" else _without(monkeypatch)


@given(VALUES)
def test_what_is_written_is_read_by_both(value: Any) -> None:
    written = light_json.encode(value)
    assert written == json.dumps(value)
    assert light_json.decode(written.encode()) == value


@pytest.mark.parametrize("value", [{"a": [1, None, "ä\n"]}, 1.5e300, float("inf"), []])
def test_a_document_goes_there_and_back(light: ModuleType, value: Any) -> None:
    assert light.encode(value) == json.dumps(value)
    assert light.decode(b" " + json.dumps(value).encode() + b"\n") == value


@pytest.mark.parametrize("data", [b"", b"{", b"1 2", b'"\n"', b"\xff", b"nul"])
def test_what_is_no_document_is_refused(light: ModuleType, data: bytes) -> None:
    with pytest.raises(ValueError):
        light.decode(data)


def test_what_json_has_not_is_refused(light: ModuleType) -> None:
    with pytest.raises(TypeError):
        light.encode({"a": b"x"})
