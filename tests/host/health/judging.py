"""What a test expects of a finding of `radrm doctor`, and GPUs as the daemon reports them."""

from __future__ import annotations

import os
from typing import Any

from radrm.host.health.finding import Finding

ME = os.getuid()


def judged(finding: Finding, level: str, *words: str) -> None:
    """Every finding that is not fine says what to do."""
    said = f"{finding.finding}; {finding.next_step}"
    assert finding.level.value == level, said
    assert (finding.next_step is None) == (level == "ok")
    for word in words:
        assert word in said


def gpu(index: int = 0, **changed: Any) -> dict[str, Any]:
    usual = {
        "index": index,
        "kind": "gpu",
        "profile": None,
        "state": "idle",
        "reason": None,
        "smact_source": "dcgm",
        "smact_error": None,
        "smact_coarse": False,
        "notes": [],
        "unmanaged": [],
    }
    return {**usual, **changed}
