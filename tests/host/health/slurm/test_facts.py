"""What Slurm says is read as it is meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.errors import Refused
from radrm.slurm.facts import Node, config_of, gres_of, here
from tests.host.health.slurm.said import facts


def test_recorded_answers_are_read() -> None:
    config, partition, (first, second, third) = facts(name="plain")
    assert config["SLURM_VERSION"] == "22.05.8"
    assert (partition.name, partition.nodes) == ("shared", "g[1-3]")
    assert (first.name, second.name, third.name) == ("g1", "g2", "g3")
    assert first.gres == {"gpumem": 90000, "gpu": 2}
    assert (first.host, first.partitions) == ("server", ("shared", "whole"))
    assert facts()[2][0].gres == {"gpumem": 81920}, "Slurm writes 80K"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("gpu", {"gpu": 1}),
        ("gpu:tesla", {"gpu": 1}),
        ("gpumem:1M", {"gpumem": 1 << 20}),
        ("gpu:a100:2(S:0-1),gpu:h100:3(S:0,2),gpumem:80K", {"gpu": 5, "gpumem": 81920}),
        ("gpumem:no_consume:4G", {"gpumem": 4 << 30}),
    ],
)
def test_generic_resources_are_added_up(text: str, counts: dict[str, int]) -> None:
    assert gres_of(text) == counts


@given(st.text(alphabet="gpu:,()K0129- ", max_size=40))
def test_any_text_of_resources_is_read(text: str) -> None:
    assert all(count >= 0 for count in gres_of(text).values())


def test_an_answer_without_a_version_is_refused() -> None:
    with pytest.raises(Refused, match="no version"):
        config_of(lambda *words, timeout_s: "nonsense\n=\n")


NODES = [Node(name, host, {}, ()) for name, host in (("a1", "a"), ("a2", "a"), ("b1", "b.x"))]


@pytest.mark.parametrize(
    ("wanted", "host", "found"),
    [
        ("", "b.example.org", "b1"),
        ("", "b", "b1"),
        ("", "a", None),
        ("", "c", None),
        ("a2", "b", "a2"),
        ("a3", "b", None),
    ],
)
def test_this_server_among_the_nodes(wanted: str, host: str, found: str | None) -> None:
    node = here(NODES, wanted, host)
    assert (None if node is None else node.name) == found
