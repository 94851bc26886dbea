"""What a document is, and the words that its fields take."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any, ClassVar

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
Level = Annotated[str, Words("LEVEL", ("ok", "warn", "fail"))]
MpsState = Annotated[
    str,
    Words("MPS_STATE", ("off", "starting", "up", "fault", "silent", "down", "stopping")),
]
