"""Puts pages into the wheel: those of docs/ for `radrm help TOPIC`, and the manual's, if `make
manual` has written them (git ignores them)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Pages(BuildHookInterface[Any]):
    """A hook of hatchling, which finds the one class of this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pages. An editable install has those of its checkout."""
        if version != "standard":
            return
        root = Path(self.root)
        for page in sorted((root / "docs").glob("*.md")):
            build_data["force_include"][str(page)] = f"radrm/guide/{page.name}"
        if (root / "man").is_dir():
            build_data["shared_data"]["man"] = "share/man/man1"
