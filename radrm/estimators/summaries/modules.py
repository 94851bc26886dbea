"""The output of `print(model)` for a PyTorch model: nested modules, without shapes.

    BertModel(
      (embeddings): Embedding(28996, 768, padding_idx=0), 22,268,928 params
      (layer): ModuleList(
        (0-11): 12 x BertLayer(
          (query): Linear(in_features=768, out_features=768, bias=True)
        )
      ), 7,087,872 params
    )
    Total params: 12,768

Some scripts add `, N params`. Without it, the parameters of PyTorch's own layers follow from
their arguments. Newer releases print equal neighbours once (`12 x`); here they are repeated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from radrm.estimators.summaries.arguments import attributes_of, parameters_of
from radrm.estimators.summaries.layers import Form, Layer
from radrm.estimators.summaries.text import (
    MAX_LAYERS,
    MAX_LINE,
    BadSummary,
    Problems,
    Reading,
    TooLong,
    figures,
    finished,
    number,
    quoted,
)
from radrm.structs import replace

MAX_DEPTH = 200

_KIND = r"[A-Za-z_][\w.]{0,199}"
_PARAMS = r"(?:,\s*(?P<params>[\d,]{1,20})\s+params\s*)?"
_MODULE = re.compile(
    rf"\s*(?:\((?P<name>[^()\s]{{1,200}})\):\s*)?(?:(?P<times>\d{{1,9}}) x )?"
    rf"(?P<kind>{_KIND})\((?P<rest>.*)$"
)
_CLOSE = re.compile(rf"\s*\)\s*{_PARAMS}$", re.IGNORECASE)
_TAIL = re.compile(rf"\s*{_PARAMS}$", re.IGNORECASE)
_NONE = re.compile(r"\s*\([^()\s]{1,200}\):\s*None\s*$")
_ROOT = re.compile(rf"(?:^|\s)(?P<kind>{_KIND})\($")
_FIGURE = re.compile(r"\s*total params:", re.IGNORECASE)


class _Module(Struct):
    kind: str
    name: str
    times: int
    line: int
    attributes: Mapping[str, str]
    annotated: int | None = None
    children: list[_Module] = field(default_factory=list)
    own: int = 0
    total: int = 0
    size: int = 1
    """The number of modules that it represents: itself and all inside it, each time."""


def is_root(lines: Sequence[str], at: int) -> bool:
    """Return whether an outermost module begins here: a line `Kind(`, with a module below."""
    if at >= len(lines) or len(lines[at]) > MAX_LINE or not _root_kind(lines[at]):
        return False
    inside = lines[at + 1] if at + 1 < len(lines) else ""
    return len(inside) <= MAX_LINE and inside.lstrip().startswith("(") and "):" in inside


def read(lines: Sequence[str], start: int) -> Reading:
    """Read the modules from the outermost one in `lines[start]`. Raises `BadSummary`."""
    problems = Problems()
    kind = _root_kind(lines[start])
    if kind is None:
        raise BadSummary(f"line {start + 1}: no module begins at {quoted(lines[start])}")
    root = _Module(kind, "", 1, start + 1, {})
    open_modules, at, count = [root], start + 1, 1
    while open_modules and at < len(lines):
        line = lines[at]
        if _FIGURE.match(line) or (not line.strip() and is_root(lines, at + 1)):
            break
        at += 1
        if not _add(line, at, open_modules, problems):
            count += 1
        if count > MAX_LAYERS or len(open_modules) > MAX_DEPTH:
            raise TooLong(
                f"line {at}: more than {MAX_LAYERS:,} modules, or nested more than"
                f" {MAX_DEPTH} deep: too many to be read"
            )
    closed = not open_modules
    totals, end = figures(lines, at)
    _count(root, problems)
    if root.size > MAX_LAYERS:
        raise TooLong(
            f"line {start + 1}: {root.size:,} modules are too many to be read ({MAX_LAYERS:,} are)"
        )
    layers: list[Layer] = []
    _spread(root, 0, layers)
    if totals and "total params" not in totals:
        totals, end = {}, at
    totals.setdefault("total params", f"{root.total:,}")
    return Reading(finished(Form.REPR, layers, problems, totals, start=start, closed=closed), end)


def _root_kind(line: str) -> str | None:
    """Return the outermost module's kind, after a log's prefix."""
    line = line.rstrip()
    found = _ROOT.search(line) if line.endswith("(") else None
    return found["kind"] if found else None


def _add(line: str, at: int, open_modules: list[_Module], problems: Problems) -> bool:
    """Read one line. Return True if no module begins there."""
    if len(line) <= MAX_LINE:
        close = _CLOSE.match(line)
        if close:
            module = open_modules.pop()
            module.annotated = number(close["params"] or "")
            return True
        module_or_none = _opened(line, at)
        if module_or_none is not None:
            open_modules[-1].children.append(module_or_none)
            if module_or_none.annotated is None and line.rstrip().endswith("("):
                open_modules.append(module_or_none)
            return False
        if not line.strip() or _NONE.match(line):
            return True
        if not line.lstrip().startswith("("):
            # A module's own arguments before its children (`extra_repr`).
            extra = attributes_of(line.strip())
            if extra:
                open_modules[-1].attributes = {**open_modules[-1].attributes, **extra}
                return True
    problems.add_row(at, line)
    return True


def _opened(line: str, at: int) -> _Module | None:
    """Return the module that a line begins: a whole one, or the part up to `(`."""
    found = _MODULE.match(line)
    if found is None:
        return None
    rest = found["rest"].rstrip()
    module = _Module(found["kind"], found["name"] or "", max(int(found["times"] or 1), 1), at, {})
    if not rest:
        return module
    inside, parenthesis, after = rest.rpartition(")")
    tail = _TAIL.match(after)
    if not parenthesis or tail is None:
        return None
    module.attributes = attributes_of(inside, module.kind)
    module.annotated = number(tail["params"] or "")
    return module


def _count(root: _Module, problems: Problems) -> None:
    """Compute each module's own parameters and the modules that it represents, bottom up."""
    for module in reversed(_walk(root)):
        below = sum(child.total for child in module.children)
        known = parameters_of(module.kind, module.attributes)
        if module.annotated is not None:
            module.own = max(module.annotated // module.times - below, 0)
        elif known is not None:
            module.own = known
        elif not module.children and module.attributes is not None and _has_weights(module.kind):
            problems.add(module.line, f"{module.kind} does not say how many parameters it has")
        module.total = (module.own + below) * module.times
        module.size = (1 + sum(child.size for child in module.children)) * module.times


def _has_weights(kind: str) -> bool:
    return kind.casefold() in ("conv1d", "linear", "bilinear", "embedding")


def _walk(root: _Module) -> list[_Module]:
    """Return all modules, each before those inside it."""
    found, waiting = [], [root]
    while waiting:
        module = waiting.pop()
        found.append(module)
        waiting.extend(reversed(module.children))
    return found


def _spread(module: _Module, depth: int, layers: list[Layer]) -> None:
    first = module.name.partition("-")[0]
    beginning = len(layers)
    layers.append(
        Layer(
            kind=module.kind,
            name=module.name,
            depth=depth,
            leaf=not module.children,
            parameters=module.own,
            attributes=module.attributes,
        )
    )
    for child in module.children:
        _spread(child, depth + 1, layers)
    if module.times == 1:
        return
    once = layers[beginning:]
    for turn in range(module.times):
        name = f"{int(first) + turn}" if first.isascii() and first.isdigit() else module.name
        again = [replace(once[0], name=name), *once[1:]]
        if turn:
            layers.extend(again)
        else:
            layers[beginning:] = again
