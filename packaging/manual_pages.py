"""Puts the manual pages into the wheel, if `make manual` has written them: git ignores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPages(BuildHookInterface[Any]):
    """A hook of hatchling, which finds the one class of this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folder. An editable install has none."""
        if version == "standard" and (Path(self.root) / "man").is_dir():
            build_data["shared_data"]["man"] = "share/man/man1"
