"""A Slurm that says what a real one has said (`recorded/`)."""

from __future__ import annotations

from pathlib import Path

from radrm.errors import Refused
from radrm.slurm.asking import SlurmRefused
from radrm.slurm.facts import Node, Partition, config_of, nodes_of, partition_of

RECORDED = Path(__file__).parent / "recorded"


class Said:
    """`programs.run` with recorded answers. `changed` replaces words of them."""

    def __init__(self, name: str = "fitting", changed: tuple[tuple[str, str], ...] = ()) -> None:
        text = (RECORDED / f"{name}.txt").read_text()
        for old, new in changed:
            assert old in text, old
            text = text.replace(old, new)
        self.config, rest = text.split("-- partition\n")
        self.partition, self.nodes = rest.split("-- nodes\n")
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *words: str, timeout_s: float) -> str:
        assert timeout_s > 0
        self.asked.append(words)
        match words:
            case ("scontrol", "--version"):
                return "slurm-wlm 22.05.8\n"
            case ("scontrol", "show", "config"):
                return self.config
            case ("scontrol", "-o", "show", "partition", "shared"):
                return self.partition
            case ("scontrol", "-o", "show", "partition", name):
                raise SlurmRefused(f"Partition {name} not found")
            case ("scontrol", "-o", "show", "node", "g[1-3]"):
                return self.nodes
        raise AssertionError(words)


def nobody(*words: str, timeout_s: float) -> str:
    """No Slurm here."""
    raise Refused(f"{words[0]} is not installed here")


def facts(
    *changed: tuple[str, str], name: str = "fitting"
) -> tuple[dict[str, str], Partition, list[Node]]:
    """The recorded facts, with words replaced."""
    said = Said(name, changed)
    partition = partition_of(said, "shared")
    return config_of(said), partition, nodes_of(said, partition.nodes)
