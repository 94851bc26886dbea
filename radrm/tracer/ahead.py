"""Find lines of the user's code that need more memory later on, and have not run.

Theory of operation: a trace ends after a few steps. A model whose backbone is frozen until epoch 10
then shows a small part of its need, and so does one whose averaged weights begin at epoch 10. So at
the end of the trace the program's files are searched for lines that train more weights, or that
copy weights. They count where the program will pass: in the loops in which it is, and in the
functions that these mention. A line that has run is no reason: what it did has been seen. Nor is
one below a condition that is false and that these loops do not change, such as `if args.ema:`.

Where a library has the loop (Lightning, transformers), it passes the methods of the user's classes
that it knows: the callbacks, the module, the trainer.
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import lines
import torch
from torch._subclasses.fake_tensor import FakeTensor

_torch: Any = torch
"""PyTorch, whose parts are replaced here."""
_MOST_FILES, _MOST_TEXT = 32, 1 << 20
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_AVERAGE = re.compile(r"EMA|Ema(?![a-z])|AveragedModel|MovingAverage")
_WEIGHTS = re.compile(r"parameters$|state_dict$")
_MODEL = re.compile(r"(^|_)(model|module|net|network)$")
_NO_HOOKS = re.compile(r"__|^forward$|test|predict|(fit|train)_end$|teardown")
"""Methods that a library does not call while it trains, or that have run in every step."""
_PLAIN = (
    ast.Name, ast.Attribute, ast.Constant, ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop,
    ast.UnaryOp, ast.unaryop, ast.Load,
)  # fmt: skip


class Ahead:
    """Notes the lines that have let weights be trained, or have copied them."""

    def __init__(self) -> None:
        self._ran: set[str | None] = set()
        self._way: _Way | None = None

    def begin(self) -> None:
        plain: Any = _torch._C.TensorBase.requires_grad
        method, clone = _torch.Tensor.requires_grad_, _torch.Tensor.clone

        def assign(this: Any, value: bool) -> None:
            if value and not plain.__get__(this):
                self._ran.add(lines.here())
            plain.__set__(this, value)

        def call(this: Any, requires_grad: bool = True) -> Any:
            if requires_grad:
                self._ran.add(lines.here())
            return method(this, requires_grad)

        def copy(this: Any, *args: Any, **kwargs: Any) -> Any:
            if type(this) is FakeTensor:
                self._ran.add(lines.here())
            return clone(this, *args, **kwargs)

        _torch.Tensor.requires_grad = property(plain.__get__, assign)
        _torch.Tensor.requires_grad_ = call
        _torch.Tensor.clone = copy

    def trains(self, trained: set[int]) -> str | None:
        """Return a line that will train frozen weights, if there are such weights.

        `trained` are the ids of those that an optimizer has.
        """
        if any(_is_frozen(each) and id(each) not in trained for each in gc.get_objects()):
            return self._first(_Way.unfreezes)
        return None

    def copies(self) -> str | None:
        """Return a line that will keep a copy of the weights."""
        return self._first(_Way.copies)

    def _first(self, wanted: Any) -> str | None:
        way = self._way = self._way or _Way()
        for file, node in way.nodes():
            if wanted(way, node):
                found = [f"{file}:{at}" for at in range(node.lineno, node.end_lineno + 1)]
                if self._ran.isdisjoint(found):
                    return found[0]
        return None


def _is_frozen(value: Any) -> bool:
    return (
        type(value) is FakeTensor
        and value.fake_device.type == "cuda"
        and isinstance(value, torch.nn.Parameter)
        and not value.requires_grad
    )


class _Way:
    """The parts of the user's files that the program will pass, as far as their names say."""

    def __init__(self) -> None:
        self._trees = dict(_programs())
        self._known: dict[str, Any] = {}
        """The variables of the functions that run, the inner ones last."""
        self._owners: dict[int, Any] = {}
        """The objects whose methods a library calls, by these methods' nodes."""
        self._parts = self._followed([*self._running(), *self._hooks()])
        inside = [each for _, part in self._parts for each in _walked(part)]
        self._changed = {ast.unparse(each) for each in inside if _is_changed(each)}

    def nodes(self) -> Iterator[tuple[str, Any]]:
        """Yield the name of the file, and each statement and call that can run."""
        variables = self._known
        for file, part in self._parts:
            owner = self._owners.get(id(part))
            self._known = variables if owner is None else {**variables, "self": owner}
            for node in self._alive(part):
                yield file, node
        self._known = variables

    # ------------------------------------------------------------------ what comes

    def _running(self) -> list[tuple[str, Any]]:
        """Return the outermost loop that runs, and the functions that run inside of it."""
        frame: Any = sys._current_frames().get(threading.main_thread().ident or 0)
        frames = []
        while frame is not None:
            if frame.f_code.co_filename in self._trees:
                frames.append(frame)
            frame = frame.f_back
        found: list[tuple[str, Any]] = []
        for each in frames[::-1]:
            self._known |= {**each.f_globals, **each.f_locals}
            code, line = each.f_code, each.f_lineno
            body = _innermost(self._trees[code.co_filename], code.co_name, line)
            if not found:
                body = next((loop for loop in _loops(body) if _has(loop, line)), None)
            if body is not None:
                found.append((os.path.basename(code.co_filename), body))
        return found

    def _hooks(self) -> Iterator[tuple[str, Any]]:
        """Yield the methods by which the user's objects take part in a library's loop: those that
        a library's class has, too."""
        objects = gc.get_objects()
        users = {made for made in set(map(type, objects)) if _file_of(made) in self._trees}
        for made, each in {type(each): each for each in objects if type(each) in users}.items():
            library = [base for base in made.__mro__[1:-1] if _file_of(base) not in self._trees]
            for node in _methods(self._trees[_file_of(made)], made.__name__):
                hook = any(hasattr(base, node.name) for base in library)
                if hook and not _NO_HOOKS.search(node.name):
                    self._owners[id(node)] = each
                    yield os.path.basename(_file_of(made)), node

    def _followed(self, parts: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return also the functions that these parts mention, and those that they mention, ..."""
        named: dict[str, list[tuple[str, Any]]] = {}
        for file, tree in self._trees.items():
            for node in ast.walk(tree):
                if isinstance(node, _FUNCTIONS):
                    named.setdefault(node.name, []).append((os.path.basename(file), node))
                elif isinstance(node, ast.ClassDef):
                    makers = [e for e in node.body if getattr(e, "name", "") == "__init__"]
                    named.setdefault(node.name, []).extend(
                        (os.path.basename(file), each) for each in makers
                    )
        found, ahead = [], list(parts)
        while ahead:
            found.append(ahead.pop())
            for name in set(_names(found[-1][1])):
                ahead += named.pop(name, [])
        return found

    def _alive(self, node: Any) -> Iterator[Any]:
        yield node
        if isinstance(node, ast.If):
            truth = self._truth(node.test)
            children = [node.test, *(node.body if truth is not False else ())]
            children += node.orelse if truth is not True else ()
        else:
            children = list(ast.iter_child_nodes(node))
        for child in children:
            if not isinstance(child, _FUNCTIONS):
                yield from self._alive(child)

    def _truth(self, test: Any) -> bool | None:
        """Return the truth of a condition that these parts do not change. None: it is unknown."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            truths = [self._truth(each) for each in test.values]
            return False if False in truths else None if None in truths else True
        for node in ast.walk(test):
            if not isinstance(node, _PLAIN):
                return None
            if isinstance(node, ast.expr) and ast.unparse(node) in self._changed:
                return None
        try:
            return bool(eval(compile(ast.Expression(test), "?", "eval"), {}, self._known))
        except Exception:  # a name of another function
            return None

    # ------------------------------------------------------------------ what is looked for

    def unfreezes(self, node: Any) -> bool:
        if isinstance(node, ast.Assign):
            targets = [t for t in node.targets if isinstance(t, ast.Attribute)]
            return any(t.attr == "requires_grad" for t in targets) and not _off(node.value)
        if not isinstance(node, ast.Call):
            return False
        name = _called(node)
        if name == "requires_grad_":
            return not (node.args and _off(node.args[0]))
        told = [each.arg or "" for each in node.keywords if not _off(each.value)]
        return any("unfreeze" in each for each in (name.lower(), *told))

    def copies(self, node: Any) -> bool:
        if isinstance(node, ast.Call):
            mentioned = set(_names(node))
            if _called(node) != "deepcopy" and not _AVERAGE.search(_called(node)):
                return False
            return "cpu" not in mentioned and any(map(self._has_weights, mentioned))
        if not isinstance(node, (ast.For, ast.DictComp, ast.ListComp)):
            return False
        over = node.iter if isinstance(node, ast.For) else node.generators[0].iter
        mentioned = set(_names(node))
        if "clone" not in mentioned or "cpu" in mentioned:
            return False
        return any(map(_WEIGHTS.search, _names(over)))

    def _has_weights(self, name: str) -> bool:
        """Return whether a variable, or an attribute of `self`, is a model. What a library gives
        to a method is one by its name."""
        if self._owners and _MODEL.search(name) and name not in self._known:
            return True
        own = getattr(self._known.get("self"), "__dict__", {})
        return any(isinstance(each.get(name), torch.nn.Module) for each in (self._known, own))


def _programs() -> Iterator[tuple[str, Any]]:
    """Yield the program's own files, parsed."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    own = [f for f in files if f and f.endswith(".py") and lines.is_users(f)]
    for file in sorted(set(own))[:_MOST_FILES]:
        try:
            with open(file, "rb") as text:
                yield file, ast.parse(text.read(_MOST_TEXT))
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            pass


def _file_of(made: type) -> str:
    """Return the file of a class, empty if it has none."""
    return getattr(sys.modules.get(str(made.__module__)), "__file__", None) or ""


def _methods(tree: Any, name: str) -> Iterator[Any]:
    for each in ast.walk(tree):
        if isinstance(each, ast.ClassDef) and each.name == name:
            yield from (node for node in each.body if isinstance(node, _FUNCTIONS))


def _innermost(tree: Any, name: str, line: int) -> Any:
    """Return the function of this name around a line, or the whole file."""
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, _FUNCTIONS) and each.name == name and _has(each, line)
    ]
    return max(around, key=lambda each: each.lineno, default=tree)


def _loops(tree: Any) -> Iterator[Any]:
    """Yield loops, the outer ones first."""
    return (each for each in ast.walk(tree) if isinstance(each, _LOOPS))


def _has(node: Any, line: int) -> bool:
    return bool(node.lineno <= line <= node.end_lineno)


def _is_changed(node: Any) -> bool:
    named = isinstance(node, (ast.Name, ast.Attribute))
    return named and isinstance(node.ctx, ast.Store)


def _walked(tree: Any) -> Iterator[Any]:
    """Yield what is in a part, without the functions that it defines."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, _FUNCTIONS):
            yield from _walked(child)


def _names(tree: Any) -> Iterator[str]:
    for node in _walked(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _called(call: Any) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _off(node: Any) -> bool:
    return isinstance(node, ast.Constant) and not node.value
