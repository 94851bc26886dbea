"""`radrm slurm`: radrm on the nodes of a Slurm cluster."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from radrm.client.connection import Client
from radrm.client.text import warn
from radrm.core.units import parse_mib
from radrm.errors import RadrmError, UsageError
from radrm.slurm.setup import ClusterNode, cluster_config, gres_conf, job_submit_lua, slurm_conf

slurm = typer.Typer(
    name="slurm",
    help="Print what a Slurm cluster needs for shared GPUs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_FILES = ("slurm.conf", "gres.conf", "job_submit.lua")


@slurm.callback()
def _slurm() -> None:
    """Print what a Slurm cluster needs for shared GPUs."""


@slurm.command()
def setup(
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:SIZE",
            help="A node or range of nodes, and the memory of all GPUs of one: 'g[1-8]:640G' "
            "(repeatable); by default this server, as its daemon knows it.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="One file: slurm.conf, gres.conf or job_submit.lua."),
    ] = None,
) -> None:
    """Print the lines for Slurm's configuration: slurm.conf, gres.conf, job_submit.lua.

    Nothing is written. The names and amounts are those of [slurm] in radrm's configuration.

    \b
    Examples:
      radrm slurm setup --node 'g[1-8]:640G'
      radrm slurm setup --only job_submit.lua > /etc/slurm/job_submit.lua
    """
    if only is not None and only not in _FILES:
        raise UsageError(f"--only {only[:40]!r}: name one of {', '.join(_FILES)}")
    config = cluster_config(os.environ).slurm
    named = [_node(text) for text in node or ()]
    if only == "job_submit.lua":
        print(job_submit_lua(config, named), end="")
        return
    nodes = named or [_this_node(config.node)]
    texts = {"slurm.conf": slurm_conf(config, nodes), "gres.conf": gres_conf(config, nodes)}
    if only is not None:
        print(texts[only], end="")
        return
    texts["job_submit.lua"] = job_submit_lua(config, nodes)
    for name, text in texts.items():
        print(f"### {name}\n{text}")


def _node(text: str) -> ClusterNode:
    name, _, size = text.rpartition(":")
    try:
        mib = parse_mib(size)
    except ValueError:
        mib = 0
    if not name or not mib or not name.isprintable() or " " in name:
        raise UsageError(f"--node {text[:60]!r} is not NAME:SIZE, as in 'g[1-8]:640G'")
    return ClusterNode(name, mib)


def _this_node(name: str) -> ClusterNode:
    """This server, with the memory of the GPUs that its daemon serves."""
    try:
        with Client() as client:
            gpus = client.ask("gpus")
    except RadrmError as error:
        raise UsageError(
            f"the GPU memory of the nodes is not known ({error}); say it: --node 'g[1-8]:640G'"
        ) from None
    mib = sum(each["total_mib"] for each in gpus)
    warn(f"the lines are for this server alone, with {len(gpus)} GPUs; others: --node")
    return ClusterNode(name or os.uname().nodename.partition(".")[0], mib)
