"""Change a field of a record.

Records of radrm are structs of msgspec: their classes are made thirty times as fast as
dataclasses, which every command waits for, and their objects six times as fast. Rules stay
dataclasses, as users write their own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Type checkers know the fields of a struct only in the function of the standard library.
    from dataclasses import replace as replace
else:
    from msgspec.structs import replace as replace
