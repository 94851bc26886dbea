"""The soak itself runs: some seconds of it, which must not find anything but that it was short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S

SECONDS = 6.0


@pytest.mark.daemon
def test_some_seconds_of_it_find_nothing(tmp_path: Path) -> None:
    results = tmp_path / "soak.json"
    words = ["--hours", str(SECONDS / 3600), "--seed", "1", "--json", str(results)]
    done = subprocess.run(
        [sys.executable, "-m", "proofs.soak", *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
    )
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    found = json.loads(results.read_text())
    assert [line for line in found["findings"] if not line.startswith("untried")] == [], done.stdout
    assert done.returncode == (1 if found["findings"] else 0)
    assert found["jobs"].get("COMPLETED") and sum(found["faults"].values()), done.stdout
