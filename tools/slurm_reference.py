"""The table of the options of sbatch in docs/sbatch.md, from their declarations.

    python -m tools.slurm_reference

writes it between the marks of the page. A test fails while it is out of date.
"""

from __future__ import annotations

import re
from pathlib import Path

from radrm.jobfile.slurm.options import BECOMES, MAYBE, NOTHING, OPTIONS, SbatchOption

PLACE = Path(__file__).parents[1] / "docs" / "sbatch.md"
BEGIN = "<!-- options: made by `make generated` -->\n"
END = "<!-- end of options -->\n"
_OURS = re.compile(r"(?<![\w`])(--[a-z][a-z-]*(?:=[\w=]+)?)")
"""An option in a text."""


def table() -> str:
    """The rows of all options: those with a meaning, those refused, and those left out in one."""
    rows = ["| option of sbatch | becomes |", "|---|---|"]
    alike: dict[str, list[SbatchOption]] = {}
    for each in sorted(OPTIONS, key=lambda each: each.fate != BECOMES):
        if each.fate != NOTHING:
            says = each.says if each.fate == BECOMES else f"refused: {each.says}"
            alike.setdefault(says, []).append(each)
    for says, options in alike.items():
        rows.append(f"| {', '.join(map(_usage, options))} | {_cell(says)} |")
    left_out = ", ".join(_usage(each) for each in OPTIONS if each.fate == NOTHING)
    rows.append(f"| {left_out} | nothing; a note names it |")
    return "\n".join(rows) + "\n"


def text() -> str:
    """The page as it should be."""
    before, _, rest = PLACE.read_text("utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def _usage(option: SbatchOption) -> str:
    names = [option.usage, *(f"--{name}" for name in option.names)]
    return ", ".join(f"`{name}{'[=...]' if option.takes == MAYBE else ''}`" for name in names)


def _cell(says: str) -> str:
    return _OURS.sub(r"`\1`", says.replace("|", "\\|"))


if __name__ == "__main__":
    PLACE.write_text(text(), "utf-8")
