"""The Pythons that a job may run, and the file by which a trace takes their programs.

A trace's hook is a `sitecustomize` on PYTHONPATH. A job's script may set that variable anew, as in
`PYTHONPATH=. python train.py`, or start Python without its environment (`python -I`). So in the
sandbox, the standard library of each Python that the job may run has a `sitecustomize`, too, which
looks whether the first was found. Environments made by `venv` have their library in common with the
Python that made them; those of conda have one each.
"""

from __future__ import annotations

import glob
import itertools
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from radrm.host.attempts.folder import Fields

HOOK = "sitecustomize.py"
_MOST_LIBRARIES = 24
_MOST_FOLDERS = 200
_MOST_TEXT = 1 << 20
_NAMED = re.compile(r"([\w./~@%+-]*(?:\$\{?HOME\}?)?[\w./~@%+-]*/)bin/(?:activate|python[\d.]*)\b")
_ENVIRONMENTS = (".venv", "venv", "env", ".env")
"""Usual names of a job's own environment in its folder."""
_OF_CONDA = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
_STUB = """\
# A trace of radrm takes the programs of this Python, also where PYTHONPATH does not say so.
def _radrm():
    import os, sys
    folder = os.environ.get("RADRM_TRACE_SITE")
    if not folder or folder in map(os.path.abspath, sys.path):
        return
    from importlib.util import module_from_spec, spec_from_file_location
    sys.path.insert(0, folder)
    spec = spec_from_file_location("sitecustomize", os.path.join(folder, "sitecustomize.py"))
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
_radrm()
"""


def hook(library: str) -> bytes:
    """The text of the hook in a standard library: before what is there already."""
    try:
        with open(os.path.join(library, HOOK), "rb") as file:
            present = file.read(_MOST_TEXT)
    except OSError:
        present = b""
    return _STUB.encode() + present


def libraries(launch: Fields) -> list[str]:
    """The folders of the standard libraries of the Pythons that a job may run."""
    found: dict[str, None] = {}
    for folder in itertools.islice(_programs(launch), _MOST_FOLDERS):
        for name in ("python3", "python"):
            program = os.path.realpath(os.path.join(folder, name))
            if os.path.isfile(program):
                prefix = glob.escape(os.path.dirname(os.path.dirname(program)))
                paths = glob.glob(f"{prefix}/lib*/python3*/os.py")
                found.update(dict.fromkeys(os.path.realpath(os.path.dirname(p)) for p in paths))
        if len(found) >= _MOST_LIBRARIES:
            break
    return list(found)[:_MOST_LIBRARIES]


def _programs(launch: Fields) -> Iterator[str]:
    """Folders that may hold a Python, the likely ones first."""
    environment, cwd = launch["environment"], launch["cwd"]
    home = environment.get("HOME", "")
    words = [*(launch["interpreter"] or ()), *(launch["argv"] or ())]
    for text in (launch["script"] or "", *words):
        for named in _NAMED.findall(text[:_MOST_TEXT]):
            path = re.sub(r"^~|\$\{?HOME\}?", lambda _: home, named)
            yield os.path.join(cwd, path, "bin")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment.get(name):
            yield os.path.join(environment[name], "bin")
    yield from (folder for folder in environment.get("PATH", "").split(":") if folder)
    yield from (os.path.join(cwd, name, "bin") for name in _ENVIRONMENTS)
    yield from ("/usr/bin", "/usr/local/bin")
    conda = [os.path.dirname(os.path.dirname(environment.get("CONDA_EXE", "")))]
    conda += [environment.get("MAMBA_ROOT_PREFIX", ""), "/opt/conda", "/opt/miniconda3"]
    conda += [os.path.join(home, name) for name in _OF_CONDA if home]
    patterns = [f"{glob.escape(root)}/envs/*/bin" for root in conda if root]
    yield from (os.path.join(root, "bin") for root in conda if root)
    if home:
        pyenv = environment.get("PYENV_ROOT") or f"{home}/.pyenv"
        patterns += [
            f"{glob.escape(home)}/.conda/envs/*/bin",
            f"{glob.escape(pyenv)}/versions/*/bin",
            f"{glob.escape(home)}/.local/share/uv/python/*/bin",
        ]
    for pattern in patterns:
        yield from sorted(glob.glob(pattern))
