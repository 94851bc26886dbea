"""The mark in a `job_submit.lua`: found on any line, and only where it is whole."""

from __future__ import annotations

import pytest

from radrm.host.slurm.job_submit import FORMAT, MARK, format_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MARK, FORMAT),
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
