"""Packages of third parties with rules, as an installer leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, points: Mapping[str, Mapping[str, str]], **modules: str) -> Path:
    """A package in a folder, which is made: its modules' texts, and its entry points by group and
    name. Return the folder, for `PYTHONPATH`."""
    about = folder / "third_party-1.0.dist-info"
    about.mkdir(parents=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    lines = ""
    for group, rules in points.items():
        lines += f"[{group}]\n" + "".join(f"{name} = {rules[name]}\n" for name in rules)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(lines)
    return folder
