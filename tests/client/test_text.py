"""JSON for programs: a document, whatever its length."""

from __future__ import annotations

import json

import pytest

from radrm.client import text


@pytest.mark.parametrize("count", [0, 2, text._LONG, text._LONG + 1])
def test_a_list_is_one_document(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    document = [{"id": number, "name": "ü\n"} for number in range(count)]
    text.print_json(document)
    assert json.loads(capsys.readouterr().out) == document
