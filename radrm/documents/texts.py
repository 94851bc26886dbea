"""What each field means: the text below it in the declaration."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from radrm.documents.base import Document


@cache
def texts_of(kind: type[Document]) -> Mapping[str, str]:
    """The meaning of each field, in one line, by the field's name in Python."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Document) and base is not Document:
            found |= _texts(base)
    return found


def _texts(kind: type[Document]) -> dict[str, str]:
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(inspect.getmodule(kind) or kind)).body
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__
    )
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
