"""Loads the stores of the releases."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

RELEASES = ("0.1.0", "0.2.0")
_HERE = Path(__file__).parent


def load(release: str, path: Path, home: Path) -> None:
    """Make the store of a release in the file `path`. Its jobs are those of the user who runs the
    tests, who has this home folder."""
    text = (_HERE / f"store-{release}.sql").read_text()
    text = text.replace("/home/ann", str(home)).replace(
        "/opt/radrm/bin", str(Path(sys.executable).parent)
    )
    with sqlite3.connect(path) as db:
        db.executescript(text)
        db.execute("UPDATE submissions SET uid = ?, gid = ?", (os.getuid(), os.getgid()))
        db.execute("UPDATE jobs SET record = json_set(record, '$.spec.uid', ?)", (os.getuid(),))
    db.close()


def records(release: str) -> Any:
    """The records of a store as its release reads them: `kept` and `ended`."""
    return json.loads((_HERE / f"store-{release}.json").read_text())
