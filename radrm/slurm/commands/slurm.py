"""`radrm slurm` and `install-slurm-names`: what a cluster needs, and its users' words."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from radrm.cli.parameters import FLAG, TEXT, TEXTS, WORD, Parameter
from radrm.client.connection import Client
from radrm.client.text import warn
from radrm.core.units import parse_mib
from radrm.errors import RadrmError, Refused, UsageError
from radrm.slurm.asking import OURS, is_ours
from radrm.slurm.commands.names import NAMES
from radrm.slurm.setup import ClusterNode, cluster_config, gres_conf, job_submit_lua, slurm_conf

_FILES = ("slurm.conf", "gres.conf", "job_submit.lua")


_NODE = (
    "A node or range of nodes, and the memory of all GPUs of one: 'g[1-8]:640G' (repeatable); "
    "by default this server, as its daemon knows it."
)
SETUP_PARAMETERS = (
    Parameter("node", TEXTS, _NODE, "NAME:SIZE", ("--node",)),
    Parameter("only", TEXT, f"One file: {', '.join(_FILES)}.", "FILE", ("--only",)),
)


def setup(node: list[str], only: str) -> None:
    """Print the lines for Slurm's configuration: slurm.conf, gres.conf, job_submit.lua.

    Nothing is written. The names and amounts are those of [slurm] in radrm's configuration.

    \b
    Examples:
      radrm slurm setup --node 'g[1-8]:640G'
      radrm slurm setup --only job_submit.lua > /etc/slurm/job_submit.lua
    """
    if only and only not in _FILES:
        raise UsageError(f"--only {only[:40]!r}: name one of {', '.join(_FILES)}")
    config = cluster_config(os.environ).slurm
    named = [_node(text) for text in node]
    if only == "job_submit.lua":
        print(job_submit_lua(config, named), end="")
        return
    nodes = named or [_this_node(config.node)]
    texts = {"slurm.conf": slurm_conf(config, nodes), "gres.conf": gres_conf(config, nodes)}
    if only:
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


INSTALL_SLURM_NAMES_PARAMETERS = (
    Parameter("target", WORD, "Where the commands go.", "DIR", least=1),
    Parameter("force", FLAG, "Also where a Slurm is installed.", flags=("--force",)),
)


def install_slurm_names(target: str, force: bool) -> None:
    """Write commands named sbatch, squeue, scancel, srun... that speak to radrm.

    They are for terminals of a server without Slurm, whose users know these names. Jobs that are
    submitted as Slurm's have them anyway. docs/slurm.md has their options. Nothing that radrm did
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
    print(f"Wrote {', '.join(NAMES)} to {folder}")
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if str(folder.resolve()) not in [os.path.realpath(each) for each in folders if each]:
        print(f"To find them, put it into PATH: export PATH={shlex.quote(str(folder))}:$PATH")


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
