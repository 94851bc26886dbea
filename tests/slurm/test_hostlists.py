"""Lists of hosts as `scontrol show hostnames` and `hostlist` write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import UsageError
from radrm.slurm.hostlists import compressed, expanded

LISTS = {
    "box": ["box"],
    "n[1-3,5]": ["n1", "n2", "n3", "n5"],
    "n[08-10]": ["n08", "n09", "n10"],
    "a,n[1-2],z": ["a", "n1", "n2", "z"],
    "r[1-2]n[1-2]": ["r1n1", "r1n2", "r2n1", "r2n2"],
    "n[1,3]-ib": ["n1-ib", "n3-ib"],
    "gpu-a100,": ["gpu-a100"],
    "": [],
}


@pytest.mark.parametrize("text", LISTS)
def test_expanded(text: str) -> None:
    assert expanded(text) == LISTS[text]


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n[a]", "n]1", "n[1-999999999]", "n[[1]]"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(UsageError):
        expanded(text)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["n1", "n2", "n3", "b"], "n[1-3],b"),
        (["n1", "n3"], "n[1,3]"),
        (["n08", "n09", "n10"], "n[08-09],n10"),
        (["box"], "box"),
    ],
)
def test_compressed(hosts: list[str], text: str) -> None:
    assert compressed(hosts) == text


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,4}", fullmatch=True), max_size=20))
def test_compressing_loses_nothing(hosts: list[str]) -> None:
    assert expanded(compressed(hosts)) == hosts
