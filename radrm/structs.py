"""The base of what is stored, and how to change a field of a record.

Records of radrm are structs of msgspec: their classes are made thirty times as fast as
dataclasses, which every command waits for, and their objects six times as fast. Rules stay
dataclasses, as users write their own.
"""

from __future__ import annotations

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Type checkers know the fields of a struct only in the function of the standard library.
    from dataclasses import replace as replace

    from typing_extensions import dataclass_transform
else:
    from msgspec.structs import replace as replace

    def dataclass_transform(**_: object) -> object:
        return lambda cls: cls


# Type checkers do not see that a subclass of a struct inherits its options.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record that the store keeps. Its JSON leaves out what has its default.

    So a default is part of what is stored: to change one is to change the store's version.
    """
