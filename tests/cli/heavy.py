"""Modules that a quick command does not import."""

from __future__ import annotations

# fmt: off
HEAVY = {
    "argparse", "asyncio", "concurrent", "ctypes", "dataclasses", "datetime", "difflib",
    "email", "inspect", "logging", "msgspec", "pathlib", "pickle", "psutil", "rich",
    "selectors", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading",
    "typing", "typing_extensions", "urllib", "radrm.cli.show", "radrm.config",
    "radrm.core.records", "radrm.daemon", "radrm.host.storage.store", "radrm.wiring",
}
# fmt: on
