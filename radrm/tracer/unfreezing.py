"""Find lines of the user's code that train more weights later on, and have not run.

Theory of operation: a trace ends after a few steps. A model whose backbone is frozen until epoch 10
then shows a small part of its need. So, if weights on the GPU are frozen at the end and none was
ever trained, the program's files are searched for lines that could train them: an assignment to
`requires_grad`, a call of `requires_grad_`, anything named `unfreeze`. A line that has run is no
reason: what it did has been seen. Nor is a function that the training does not mention.
"""

from __future__ import annotations

import ast
import gc
import os
import sys
from typing import Any

import lines
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import register_optimizer_step_post_hook

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""
_MOST_FILES, _MOST_TEXT = 32, 1 << 20
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Unfreezing:
    """Notes the lines that let weights be trained."""

    def __init__(self) -> None:
        self._ran: set[str | None] = set()
        self._running: set[str] = set()
        """The functions that run while an optimizer makes a step."""

    def begin(self) -> None:
        plain: Any = _torch._C.TensorBase.requires_grad
        method = _torch.Tensor.requires_grad_

        def assign(this: Any, value: bool) -> None:
            if value and not plain.__get__(this):
                self._ran.add(lines.here())
            plain.__set__(this, value)

        def call(this: Any, requires_grad: bool = True) -> Any:
            if requires_grad:
                self._ran.add(lines.here())
            return method(this, requires_grad)

        _torch.Tensor.requires_grad = property(plain.__get__, assign)
        _torch.Tensor.requires_grad_ = call
        register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, *_: Any) -> None:
        frame: Any = sys._getframe(1)
        while frame is not None:
            self._running.add(frame.f_code.co_name)
            frame = frame.f_back

    def ahead(self, trained: set[int]) -> str | None:
        """Return a line that would train frozen weights and has not run, if there are such weights.

        `trained` are the ids of those that an optimizer has.
        """
        if not any(_is_frozen(each) and id(each) not in trained for each in gc.get_objects()):
            return None
        trees = {os.path.basename(file): tree for file, tree in _programs()}
        reached = _reached(trees.values(), self._running)
        for file, tree in trees.items():
            for number, inside in _sites(tree):
                line = f"{file}:{number}"
                if line not in self._ran and (inside is None or inside in reached):
                    return line
        return None


def _is_frozen(value: Any) -> bool:
    return (
        type(value) is FakeTensor
        and value.fake_device.type == "cuda"
        and isinstance(value, torch.nn.Parameter)
        and not value.requires_grad
    )


def _programs() -> Any:
    """Yield the program's own files, parsed."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    own = [f for f in files if f and f.endswith(".py") and lines.is_users(f)]
    for file in sorted(set(own))[:_MOST_FILES]:
        try:
            with open(file, "rb") as text:
                yield file, ast.parse(text.read(_MOST_TEXT))
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            pass


def _reached(trees: Any, running: set[str]) -> set[str]:
    """Return the names of the functions that the running ones mention, and these mention, ..."""
    mentioned: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS):
                mentioned.setdefault(node.name, set()).update(_names(node))
    found: set[str] = set()
    ahead = set(running)
    while ahead:
        found |= ahead
        ahead = {each for name in ahead for each in mentioned.get(name, ())} - found
    return found


def _names(tree: Any) -> Any:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _sites(tree: Any, inside: str | None = None) -> Any:
    """Yield the number of each line that can unfreeze, and the function that it is in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Assign):
            targets = [t for t in node.targets if isinstance(t, ast.Attribute)]
            if any(t.attr == "requires_grad" for t in targets) and not _off(node.value):
                yield node.lineno, inside
        elif isinstance(node, ast.Call) and _unfreezes(node):
            yield node.lineno, inside
        yield from _sites(node, node.name if isinstance(node, _FUNCTIONS) else inside)


def _unfreezes(call: Any) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name == "requires_grad_":
        return not (call.args and _off(call.args[0]))
    told = [each.arg or "" for each in call.keywords if not _off(each.value)]
    return any("unfreeze" in each for each in (name.lower(), *told))


def _off(node: Any) -> bool:
    return isinstance(node, ast.Constant) and not node.value
