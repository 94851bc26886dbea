"""Makes way for the `radrm` that a job's Python has itself, or else for that of the daemon.

This folder is on the PYTHONPATH of jobs, before installed packages. A module of this name of the
user's own, or another release, is what a job means by it; `report` and `elastic` come from the
daemon's where it has none. It needs Python 3.8 and its standard library alone.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_DAEMON = os.path.dirname(_FOLDER)


def _make_way(name: str) -> None:
    """Put the module that is meant in the place of this one."""
    others = [each for each in sys.path if os.path.realpath(each or os.curdir) != _FOLDER]
    found = PathFinder.find_spec(name, others)
    if found is None or found.loader is None:
        file = os.path.join(_DAEMON, "__init__.py")
        found = importlib.util.spec_from_file_location(
            name, file, submodule_search_locations=[_DAEMON]
        )
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    path = getattr(module, "__path__", None)
    if path is not None and _DAEMON not in path:
        module.__path__ = [*path, _DAEMON]


if __name__ == "radrm":
    _make_way(__name__)
