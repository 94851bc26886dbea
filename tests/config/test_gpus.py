"""The settings [gpus] that say which GPUs radrm uses, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.config import load_config
from radrm.errors import BadConfig


def gpus(folder: Path, text: str) -> dict[str, object]:
    """The table [gpus] of a configuration with this text in it, as it is written again."""
    path = folder / "radrm.toml"
    path.write_text(f"[gpus]\n{text}\n")
    found = load_config({"RADRM_CONFIG": str(path)}, system=False).to_table()["gpus"]
    return {key: found[key] for key in ("only", "until")}


@pytest.mark.parametrize(
    ("text", "only", "until"),
    [
        ("", [], ""),
        ('only = [1, "GPU-1a2b3c4d"]', [1, "GPU-1a2b3c4d"], ""),
        ('until = "2030-01-31T18:00"', [], "2030-01-31T18:00"),
        ("until = 2030-01-31T18:00:00", [], "2030-01-31T18:00:00"),
        ('until = "2030-01-31 18:00:00+01:00"', [], "2030-01-31 18:00:00+01:00"),
    ],
)
def test_they_are_read_and_written(
    tmp_path: Path, text: str, only: list[object], until: str
) -> None:
    assert gpus(tmp_path, text) == {"only": only, "until": until}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("only = 3", ("gpus.only", "a list of GPU indices and UUIDs", "3")),
        ("only = [-1]", ("gpus.only", "a list of GPU indices and UUIDs")),
        ("only = ['a']", ("gpus.only", "a list of GPU indices and UUIDs")),
        ("until = 'soon'", ("gpus.until", "a date and time", "'soon'")),
        ("until = 12:00:00", ("gpus.until", "a date and time")),
        ("until = 5", ("gpus.until", "a date and time", "5")),
    ],
)
def test_wrong_ones_are_one_line(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(BadConfig) as caught:
        gpus(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words)
