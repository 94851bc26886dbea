"""Tells radrm of the first optimizer steps of a PyTorch program: then its memory is known.

Python imports this file at its start, since its folder is on the PYTHONPATH of jobs. It does
nothing until the program imports `torch`. Then a hook of PyTorch's own counts the steps of the
optimizers, and a datagram to `$RADRM_PROGRESS` says `steps=N` at the steps `_AT`.

What must hold, since this runs in every Python program of every job:
- Nothing here raises, prints, waits, starts a thread, or imports anything but the standard library.
- A `sitecustomize` that this one hides is loaded as Python would have done.
- Of several ranks the first one speaks. Of several optimizers the one with the fewest steps counts:
  memory is known when all of them have stepped.
- A compiled step is not counted: PyTorch would compile it anew for each count.

`RADRM_STEPS=0` turns it off. It needs Python 3.8.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_AT = (10, 30, 100)
_MOST = 64
"""Optimizers that are counted."""
_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""The variables by which launchers number their processes."""


def _load_hidden() -> None:
    """Load the `sitecustomize` that Python would have found without this one."""
    from importlib.machinery import PathFinder

    here, mine = os.path.dirname(__file__), os.path.realpath(os.path.dirname(__file__))
    after = sys.path[sys.path.index(here) + 1 :] if here in sys.path else []
    others = [each for each in after if os.path.realpath(each) != mine]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


class _Finder:
    """Has the other finders find `torch`, and hooks it when it has been executed."""

    asked = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or self.asked:
            return None
        self.asked = True
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, path, target)
            if spec is not None:
                _wrap(spec.loader)
                return spec
        return None


def _wrap(loader: Any) -> None:
    """Have a loader hook the module that it executes."""
    try:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            _hook(module)

        loader.exec_module = exec_module
    except Exception:
        pass


def _hook(torch: Any) -> None:
    """Have PyTorch (2.3 or later) call a counter after each step of any optimizer."""
    try:
        is_compiling = torch.compiler.is_compiling
        count = _Counter(torch).count

        def stepped(optimizer: object, args: Any, kwargs: Any) -> None:
            if not is_compiling():
                count(optimizer)

        # `torch.optim` has no attribute of this name.
        sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(stepped)
    except Exception:
        pass


class _Counter:
    """Counts the steps of each optimizer, and says so at some of them."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._steps: dict[int, int] = {}
        self._said = 0

    def count(self, optimizer: object) -> None:
        if self._said >= len(_AT):
            return
        try:
            steps, key = self._steps, id(optimizer)
            if key in steps or len(steps) < _MOST:
                steps[key] = steps.get(key, 0) + 1
            if min(steps.values()) >= _AT[self._said]:
                self._said += 1
                if self._is_first():
                    _say(_AT[self._said - 1])
        except Exception:
            self._said = len(_AT)

    def _is_first(self) -> bool:
        """Whether it is the first of the processes that train together."""
        group = self._torch.distributed
        if group.is_available() and group.is_initialized():
            return bool(group.get_rank() == 0)
        return next((os.environ[each] for each in _RANKS if os.environ.get(each)), "0") == "0"


def _say(steps: int) -> None:
    """Send one datagram, if the daemon can take it now."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b"steps=%d\n" % steps, os.environ["RADRM_PROGRESS"])


def _is_wanted() -> bool:
    wishes = os.environ
    traced = wishes.get("RADRM_TRACE_FOLDER")
    return bool(wishes.get("RADRM_PROGRESS")) and wishes.get("RADRM_STEPS") != "0" and not traced


if _is_wanted():
    sys.meta_path.insert(0, _Finder())
_load_hidden()
