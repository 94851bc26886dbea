"""`radrm slurm` and `install-slurm-names`: what a cluster needs, and its users' words."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from radrm.cli.parameters import FLAG, TEXT, TEXTS, WORD, Parameter
from radrm.client.connection import Client
from radrm.client.text import print_text, say, warn
from radrm.core.units import parse_mib
from radrm.errors import RadrmError, Refused, UsageError
from radrm.slurm import setup as setup_lines
from radrm.slurm.asking import NAME as RULES
from radrm.slurm.asking import OURS, is_ours
from radrm.slurm.commands.names import NAMES
from radrm.slurm.hostlists import expanded
from radrm.slurm.outer import cluster_config, daemon_home, daemon_paths
from radrm.slurm.setup import (
    HEALTH,
    ClusterNode,
    gres_conf,
    job_submit_lua,
    program,
    slurm_conf,
    unequal,
)

_HEALTH_S = 15.0
_FILES = ("slurm.conf", "gres.conf", RULES, HEALTH)


_NODE = (
    "A node or range of nodes, and the GPUs of one: 'g[1-8]:8x80G', or the memory of all of them: "
    "'g[1-8]:640G' (repeatable); by default this server, as its daemon knows it."
)
SETUP_PARAMETERS = (
    Parameter("node", TEXTS, _NODE, "NAME:SIZE", ("--node",)),
    Parameter("only", TEXT, f"One file: {', '.join(_FILES)}.", "FILE", ("--only",)),
)


def setup(node: list[str], only: str) -> None:
    """Print the lines for Slurm's configuration, its rules for jobs, and a check of the nodes.

    Nothing is written. The names and amounts are those of [slurm] in radrm's configuration; the
    path of radrm is that of this one. Slurm's own files are named in the output.

    \b
    Examples:
      radrm slurm setup --node 'g[1-8]:8x80G'
      radrm slurm setup --only job_submit.lua > /etc/slurm/job_submit.lua
    """
    if only and only not in _FILES:
        raise UsageError(f"--only {only[:40]!r}: name one of {', '.join(_FILES)}")
    config = cluster_config(os.environ).slurm
    nodes = [_node(text) for text in node]
    if (differ := unequal(nodes)) is not None:
        warn(differ)
    if not nodes and only not in (RULES, HEALTH):
        nodes = [_this_node(config.node)]
    texts: dict[str, Callable[[], str]] = {
        "slurm.conf": lambda: slurm_conf(config, nodes),
        "gres.conf": lambda: gres_conf(config, nodes),
        RULES: lambda: job_submit_lua(config, nodes, program()),
        HEALTH: lambda: setup_lines.health(program()),
    }
    if only:
        print_text(texts[only]())
        return
    for name, made in texts.items():
        print_text(f"### {name}\n{made()}\n")


HEALTH_PARAMETERS: tuple[Parameter, ...] = ()


def health() -> None:
    """Say whether the radrm of this node takes jobs of Slurm. Slurm is not asked.

    Slurm's HealthCheckProgram runs it: radrm slurm setup prints one.
    """
    paths = daemon_paths(daemon_home(os.environ), os.environ, os.getuid())
    with Client(paths, _HEALTH_S) as client:
        about = client.ask("ping")
    if not about.get("slurm"):
        raise Refused("this node's radrm takes no jobs of Slurm (slurm.enabled is false)")


def _node(text: str) -> ClusterNode:
    name, _, size = text.rpartition(":")
    count, times, one = size.rpartition("x")
    try:
        mib = parse_mib(one)
        hosts = expanded(name)
    except (ValueError, UsageError):
        mib, hosts = 0, []
    gpus = int(count) if count.isascii() and count.isdigit() and len(count) < 4 else 0
    plain_names = all(re.fullmatch(r"[A-Za-z0-9._-]+", host) for host in hosts)
    if not hosts or not mib or not plain_names or bool(times) != bool(gpus):
        raise UsageError(f"--node {text[:60]!r} is not NAME:SIZE, as in 'g[1-8]:8x80G'")
    return ClusterNode(name, mib * (gpus or 1), gpus)


def _this_node(name: str) -> ClusterNode:
    """This server, with the memory of the GPUs that its daemon serves."""
    try:
        with Client() as client:
            gpus = client.ask("gpus")
    except RadrmError as error:
        raise UsageError(
            f"the GPU memory of the nodes is not known ({error}); say it: --node 'g[1-8]:640G'"
        ) from None
    sizes = [each["total_mib"] for each in gpus]
    warn(f"the lines are for this server alone, with {len(gpus)} GPUs; others: --node")
    count = len(sizes) if len(set(sizes)) == 1 else 0
    return ClusterNode(name or os.uname().nodename.partition(".")[0], sum(sizes), count)


INSTALL_SLURM_NAMES_PARAMETERS = (
    Parameter("target", WORD, "Where the commands go.", "DIR", least=1),
    Parameter("force", FLAG, "Also where a Slurm is installed.", flags=("--force",)),
)


def install_slurm_names(target: str, force: bool) -> None:
    """Write commands named sbatch, squeue, scancel, srun... that speak to radrm.

    They are for terminals of a server without Slurm, whose users know these names. Jobs that are
    submitted as Slurm's have them anyway. docs/sbatch.md has their options. Nothing that radrm did
    not write is overwritten.

    \b
    Examples:
      radrm install-slurm-names ~/bin
      sudo "$(command -v radrm)" install-slurm-names /usr/local/bin
    """
    folder = Path(target)
    texts = {name: _text(name) for name in NAMES}
    if not force:
        for name in NAMES:
            found = shutil.which(name)
            if found is not None and not is_ours(found):
                raise Refused(
                    f"this server has a Slurm: {found}; to write the commands nevertheless: --force"
                )
    for name in NAMES:
        path = folder / name
        if os.path.lexists(path) and not is_ours(str(path)):
            raise Refused(f"{path} is not radrm's, and nothing is done; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            _write(folder / name, text)
    except OSError as error:
        raise Refused(f"cannot write {error.filename}: {error.strerror}") from None
    say(f"Wrote {', '.join(NAMES)} to {folder}")
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if str(folder.resolve()) not in [os.path.realpath(each) for each in folders if each]:
        place = shlex.quote(str(folder.absolute()))
        say(f"To find them, put it into PATH: export PATH={place}:$PATH")


def _text(name: str) -> str:
    python = shlex.quote(sys.executable)
    # Nothing of the working directory is imported in place of Python's own.
    start = "import sys; sys.path[:] = [p for p in sys.path if p]; "
    start += "from radrm.slurm.named import main; main()"
    return f"#!/bin/sh\n{OURS}\nexec {python} -c '{start}' {name} \"$@\"\n"


def _write(path: Path, text: str) -> None:
    """Write a command, or replace an earlier one, at once."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755)
    with open(handle, "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)
    os.replace(draft, path)
