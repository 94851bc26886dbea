"""`radrm adopt`: mistakes are one line before any daemon is asked."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.cli.commands.adopt import adopt
from radrm.errors import RadrmError, Refused, UsageError


@pytest.mark.parametrize(
    "pid, more, kind, said",
    [
        ("0", {}, UsageError, "'0' is no process number"),
        ("1e3", {}, UsageError, "'1e3' is no process number"),
        ("-5", {}, UsageError, "'-5' is no process number"),
        ("²", {}, UsageError, "is no process number"),
        ("9" * 5000, {}, UsageError, "is no process number"),
        ("", {}, UsageError, "'' is no process number"),
        ("9999999999", {}, Refused, "there is no process 9999999999"),
        ("1", {"span": "0.5"}, UsageError, "--for: a process is adopted for 1 s to 366 days"),
        ("1", {"span": "400-00:00:00"}, UsageError, "--for: a process is adopted for 1 s to"),
        ("1", {"span": "-1h"}, UsageError, "--for: '-1h' is not a duration"),
        ("1", {"span": "soon"}, UsageError, "--for: 'soon' is not a duration"),
        ("1", {"span": "9" * 400}, UsageError, "--for: "),
    ],
)
def test_a_mistake_is_one_line(
    pid: str, more: dict[str, Any], kind: type[RadrmError], said: str
) -> None:
    words = {"span": "", "memory": "", "name": "", "notify": [], "comment": "", "as_json": False}
    with pytest.raises(kind) as caught:
        adopt(pid, **{**words, **more})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200
