"""Where the repository's files lie: for tests, wherever in `tests/` they stand."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]

STANDINS = REPOSITORY / "tests" / "standins"

BIN = STANDINS / "bin"
"""Stand-ins of NVIDIA's and the system's programs: the first folder of a test's PATH."""

SHARED_DATA = REPOSITORY.parent / "shared" / "data"
"""Published measurements, beside the repository. Tests that need them are skipped without them."""
