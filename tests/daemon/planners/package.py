"""A package of third parties with planners, as an installer would leave it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.daemon.harness import DaemonHome

HOSTILE = Path(__file__).with_name("hostile.py")


def install(home: DaemonHome, planners: Mapping[str, str], *modules: Path) -> None:
    """Install planners by name, each as `module:Class`. `modules` are copied into the package."""
    folder = home.folder / "packages"
    about = folder / "third_party-1.0.dist-info"
    about.mkdir(parents=True)
    for module in modules:
        (folder / module.name).write_text(module.read_text())
    lines = [f"{name} = {target}" for name, target in planners.items()]
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join(["[radrm.planners]", *lines, ""]))
    home.environment["PYTHONPATH"] += f":{folder}"
