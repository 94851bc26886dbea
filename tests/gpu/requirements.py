"""What a machine may lack for these tests, and what must not lack.

A test that cannot run here is skipped, with the reason. On a machine that is rented to find out,
a skipped test is a failed one: RADRM_GPU_TEST_REQUIRE=mps,gpm names what must be there; with
`all` nothing is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

import pytest

VARIABLE = "RADRM_GPU_TEST_REQUIRE"

KINDS = {
    "gpu": "a GPU that NVML can read",
    "idle": "a whole GPU that nobody uses",
    "smi": "an nvidia-smi that answers",
    "torch": "a Python whose PyTorch sees the GPU",
    "mps": "an MPS server that can be started",
    "gpm": "SM activity by hardware counters",
    "processes": "a driver that tells what a process holds",
    "memory": "a GPU with enough memory",
}


def required(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The kinds that must be there. Raises ValueError for a word that is none."""
    words = {word.strip() for word in environ.get(VARIABLE, "").split(",") if word.strip()}
    unknown = sorted(words - KINDS.keys() - {"all"})
    if unknown:
        raise ValueError(f"{VARIABLE}: unknown {unknown[0]!r}; known: all, {', '.join(KINDS)}")
    return frozenset(KINDS) if "all" in words else frozenset(words)


def missing(kind: str, reason: str) -> NoReturn:
    """End the test: as skipped, or as failed if this kind must be there."""
    assert kind in KINDS
    if kind in required():
        pytest.fail(f"{reason} ({VARIABLE} demands {kind}: {KINDS[kind]})", pytrace=False)
    pytest.skip(reason)
