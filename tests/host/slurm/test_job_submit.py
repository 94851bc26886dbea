"""The rules of radrm in a `job_submit.lua`: found in what setup prints, and among other rules."""

from __future__ import annotations

import pytest

from radrm.config import SlurmConfig
from radrm.host.slurm.job_submit import VERSION, Rules, rules_of
from radrm.slurm.setup import job_submit_lua

PRINTED = job_submit_lua(SlurmConfig(partition="beside", gres="vram"))


def test_what_setup_prints_has_the_version_and_the_names() -> None:
    assert rules_of(PRINTED) == Rules(VERSION, "beside", "vram")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"-- rules of the site\r\n{PRINTED}", Rules(VERSION, "beside", "vram")),
        (PRINTED.replace(f"version = {VERSION}", "version = 77"), Rules(77, "beside", "vram")),
        (PRINTED.replace("local RADRM", "-- local RADRM"), None),
        (PRINTED.replace(f"version = {VERSION}", "version = ٣"), None),
        ("return slurm.SUCCESS", None),
        ("", None),
    ],
)
def test_the_rules_of_a_script(text: str, found: Rules | None) -> None:
    assert rules_of(text) == found
