"""Run functions when a module is imported for the first time.

A traced program must not pay for what it does not use. So nothing here imports a library: a
finder waits until the program does, and then lets the tracer prepare it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
Hook = Callable[[Any], None]


class Imports:
    """The first finder of `sys.meta_path`. It finds nothing itself."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        self._before: dict[str, Callable[[], None]] = {}
        self._searching: set[str] = set()

    def begin(self) -> None:
        finders: list[Any] = sys.meta_path
        finders.insert(0, self)

    def after(self, name: str, hook: Hook) -> None:
        """Call `hook(module)` once the module `name` is there: now, or after its import."""
        module = sys.modules.get(name)
        if module is not None:
            hook(module)
        else:
            self._hooks.setdefault(name, []).append(hook)

    def before(self, name: str, hook: Callable[[], None]) -> None:
        """Call `hook()` when the import of `name` begins; there must be a hook after it."""
        self._before[name] = hook

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._hooks or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = self._found(name, path, target)
        finally:
            self._searching.discard(name)
        loader = getattr(spec, "loader", None)
        execute = getattr(loader, "exec_module", None)
        if execute is not None:
            # The loader belongs to this module alone; what asks it for sources finds it as it was.
            with contextlib.suppress(AttributeError, TypeError):
                loader.exec_module = lambda module: self._execute(name, loader, execute, module)
        return spec

    def _found(self, name: str, path: Any, target: Any) -> Any:
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _execute(self, name: str, loader: Any, execute: Hook, module: Any) -> None:
        with contextlib.suppress(AttributeError):
            del loader.exec_module
        if name in self._before:
            self._before.pop(name)()
        execute(module)
        for hook in self._hooks.pop(name, ()):
            hook(module)


@contextlib.contextmanager
def own_files(*names: str) -> Iterator[None]:
    """Import the tracer's files by their plain names inside the `with` block.

    The user's modules can have the same names. Theirs are put aside for the block, and the
    tracer's are forgotten after it.
    """
    theirs = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, _HERE)
    try:
        yield
    finally:
        sys.path.remove(_HERE)
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(theirs)
