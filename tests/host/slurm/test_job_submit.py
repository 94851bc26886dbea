"""The rules of radrm in a `job_submit.lua`: found in what setup prints, and among other rules."""

from __future__ import annotations

import pytest

from radrm.config import SlurmConfig
from radrm.slurm.asking import FORMAT, MARK, format_of, names_of
from radrm.slurm.setup import job_submit_lua

PRINTED = job_submit_lua(SlurmConfig(partition="beside", gres="vram"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PRINTED, FORMAT),
        (f"-- rules of the site\n  {MARK}  \nreturn slurm.SUCCESS\n", FORMAT),
        ("-- radrm job_submit rules, format 7\r\n", 7),
        ("-- radrm job_submit rules, format ٣\n", None),
        (f"print('{MARK}')", None),
        (f"{MARK}.1", None),
        ("return slurm.SUCCESS", None),
        ("", None),
    ],
)
def test_the_format_of_a_script(text: str, found: int | None) -> None:
    assert format_of(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PRINTED, ("beside", "vram")),
        (f"-- rules of the site\r\n{PRINTED}", ("beside", "vram")),
        (PRINTED.replace("local RADRM", "-- local RADRM"), None),
        (PRINTED.replace('"vram"', 'os.getenv("NAME")'), None),
        ("", None),
    ],
)
def test_the_names_in_a_script(text: str, found: tuple[str, str] | None) -> None:
    assert names_of(text) == found
