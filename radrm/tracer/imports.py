"""Run functions when a module is imported for the first time.

A traced program must not pay for what it does not use. So nothing here imports a library: a
finder waits until the program does, and then lets the tracer prepare it. And it can leave out
what a package does at its import until something is asked of it (`Imports.defer`).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import sys
import types
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

    def defer(self, name: str, alone: tuple[str, ...], known: dict[str, Any]) -> None:
        """Run the package `name` only when something of it is used: an attribute but `known` ones,
        or a submodule but those of `alone`. These are imported now. No effect if it has run, or if
        they cannot be imported by themselves."""
        parent, _, last = name.rpartition(".")
        if name in sys.modules or parent not in sys.modules:
            return
        spec = self._found(name, getattr(sys.modules[parent], "__path__", None), None)
        loader = getattr(spec, "loader", None)
        if loader is None:
            return
        module = _Deferred(name)
        module.__spec__, module.__loader__, module.__package__ = spec, loader, name
        module.__path__, module.__file__ = list(spec.submodule_search_locations or ()), spec.origin
        module.alone = alone
        module.__dict__.update(known)
        sys.modules[name] = module
        setattr(sys.modules[parent], last, module)
        try:
            for each in alone:
                importlib.import_module(f"{name}.{each}")
        except Exception:  # another version of it: what it has imported so far may be half of it
            for each in [each for each in sys.modules if f"{each}.".startswith(f"{name}.")]:
                del sys.modules[each]
            delattr(sys.modules[parent], last)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        package, _, last = name.rpartition(".")
        parent = sys.modules.get(package)
        if type(parent) is _Deferred and last not in parent.alone:
            parent.run()
            if name in sys.modules:  # the package has imported it itself
                return _Imported(sys.modules[name]).spec
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


class _Deferred(types.ModuleType):
    """A package that has not run."""

    alone: tuple[str, ...]

    def run(self) -> None:
        self.__class__ = types.ModuleType
        del self.__dict__["alone"]
        self.__loader__.exec_module(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.alone:
            return importlib.import_module(f"{self.__name__}.{name}")
        self.run()
        return getattr(self, name)


class _Imported:
    """The loader of a module that is there already. Python takes the module's own `spec`."""

    def __init__(self, module: Any) -> None:
        self._module, self._own = module, module.__spec__
        self.spec = module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, self)

    def create_module(self, spec: Any) -> Any:
        return self._module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self._own


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
