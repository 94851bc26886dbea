"""Write systemd/: what `radrm service install` installs, for radrm in /opt/radrm or ~/.local.

python -m tools.units
"""

from __future__ import annotations

from pathlib import Path

from radrm.host.service.files import files_of, own_unit

RADRMD = "/opt/radrm/bin/radrmd"
FOLDER = Path(__file__).parents[1] / "systemd"


def copies() -> dict[str, str]:
    """The text of each file in systemd/ that is a copy, by its name."""
    files = files_of(RADRMD)
    found = {Path(file.path).name: file.text for file in files if file.text is not None}
    own = own_unit("%h/.local/bin/radrmd", "").text
    assert own is not None
    return found | {"radrmd-user.service": own}


if __name__ == "__main__":
    for name, text in copies().items():
        (FOLDER / name).write_text(text)
