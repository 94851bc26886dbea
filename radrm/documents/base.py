"""What a document is, and the words that its fields take."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar, get_origin, get_type_hints

import msgspec

from radrm.core import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        return lambda cls: cls


# Type checkers do not see that a subclass of a Struct inherits its options.
@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Document(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A JSON document. What has its default is left out."""

    OTHERS: ClassVar[Any] = None
    """The type of all fields that are not declared; None: there are none."""

    @property
    def document(self) -> dict[str, Any]:
        """The document as a plain object, as `--json` prints it; its lists are tuples."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Source(Enum):
    """The record of the daemon whose field of the same name a field repeats."""

    SPEC = "spec"
    """What the user asked for (`JobSpec`)."""
    JOB = "job"
    """The job (`core.records.Job`)."""


T = TypeVar("T")
OfSpec = Annotated[T, Source.SPEC]
OfJob = Annotated[T, Source.JOB]


def repeated(kind: type[Document], source: Source) -> tuple[str, ...]:
    """The fields of a document that repeat those of a record."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        name
        for name, hint in hints.items()
        if get_origin(hint) is Annotated and source in hint.__metadata__
    )


class Words:
    """The words that a text field takes, and the name of their list."""

    def __init__(self, name: str, values: Iterable[str]) -> None:
        self.name = name
        self.values = tuple(values)


def _of(kind: type[Enum]) -> tuple[str, ...]:
    return tuple(each.value for each in kind)


GPU_STATES = ("idle", "busy", "others", "drained", "unreadable", "unhealthy", "vanished")

State = Annotated[str, Words("STATE", _of(words.JobState))]
Outcome = Annotated[str, Words("OUTCOME", _of(words.Outcome))]
Queue = Annotated[str, Words("QUEUE", _of(words.Queue))]
Mode = Annotated[str, Words("MODE", _of(words.Collocation))]
Kind = Annotated[str, Words("KIND", _of(words.DeviceKind))]
Checkpoint = Annotated[str, Words("CHECKPOINT", _of(words.CheckpointKind))]
Reserved = Annotated[str, Words("RESERVED", _of(words.ReservationKind))]
GpuState = Annotated[
    str,
    Words("GPU_STATE", GPU_STATES),
]
ReservationState = Annotated[
    str, Words("RESERVATION_STATE", ("planned", "active", "over", "ended"))
]
ProcessKind = Annotated[str, Words("PROCESS_KIND", ("job", "unmanaged", "mps"))]
Level = Annotated[str, Words("LEVEL", ("ok", "warn", "fail"))]
MpsState = Annotated[
    str,
    Words("MPS_STATE", ("off", "starting", "up", "fault", "silent", "down", "stopping")),
]


# ------------------------------------------------------------------
# What each field means: the text below it in the declaration.


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
