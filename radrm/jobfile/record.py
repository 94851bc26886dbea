"""Frozen records made without `dataclasses`, for the path of `radrm submit`.

To import `dataclasses`, and to have it write the code of a dozen classes, takes as long
as all else that `submit` does. A `Record` is declared as a frozen dataclass is, and is
one to type checkers and to `dataclasses.fields`, `replace` and `asdict`. What `submit`
does not import is better off as a real one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import Field
    from typing import Any, ClassVar, NoReturn

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: bool) -> object:
        return lambda cls: cls


class _Described:
    """`__dataclass_fields__`, worked out when `dataclasses` first asks a class for it."""

    def __get__(self, _: object, cls: type[Record]) -> dict[str, Field[Any]]:
        from dataclasses import MISSING, field, make_dataclass

        described = [
            (name, kind, field(default=vars(cls).get(name, MISSING)))
            for name, kind in cls.__annotations__.items()
        ]
        cls.__dataclass_fields__ = vars(make_dataclass(cls.__name__, described))[
            "__dataclass_fields__"
        ]
        return cls.__dataclass_fields__


@dataclass_transform(frozen_default=True)
class Record:
    """Holds what its class annotates; a value beside an annotation is the default.

    Equal to records of the same class with equal values. A class that has fields is
    not to be inherited from.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = _Described()  # type: ignore[assignment]

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        given = {**dict(zip(self._fields, values)), **named}  # noqa: B905
        needed = {name for name in self._fields if name not in vars(type(self))}
        if not needed <= given.keys() <= set(self._fields) or len(given) < len(values) + len(named):
            raise TypeError(f"a {type(self).__name__} has these fields: {', '.join(self._fields)}")
        self.__dict__.update(given)

    def as_dict(self) -> dict[str, Any]:
        """Every field's value by its name; what is in the values is left as it is."""
        return {name: getattr(self, name) for name in self._fields}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items())
        return f"{type(self).__name__}({shown})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} does not change; make another")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} does not change; make another")
