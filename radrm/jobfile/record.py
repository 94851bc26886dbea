"""Frozen records without any library, for the modules that `radrm submit` imports.

Importing `dataclasses` or `msgspec` takes as long as the rest of `submit`. A `Record` is declared
like a frozen dataclass. Type checkers and `dataclasses.fields`, `replace` and `asdict` treat it as
one. What `submit` does not import is a struct of msgspec (`radrm/structs.py`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import Field
    from typing import Any, ClassVar, NoReturn

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: bool) -> object:
        return lambda cls: cls


class _Described:
    """A descriptor that makes `__dataclass_fields__` of a class when `dataclasses` reads it."""

    def __get__(self, _: object, cls: type[Record]) -> dict[str, Field[Any]]:
        from dataclasses import MISSING, field, make_dataclass

        described = [
            (name, kind, field(default=vars(cls).get(name, MISSING)))
            for name, kind in cls.__annotations__.items()
        ]
        options: dict[str, Any] = {"init": False, "repr": False, "eq": False}
        made = make_dataclass(cls.__name__, described, namespace={"__doc__": "-"}, **options)
        cls.__dataclass_fields__ = vars(made)["__dataclass_fields__"]
        return cls.__dataclass_fields__


@dataclass_transform(frozen_default=True)
class Record:
    """The base of records. The fields are the class's annotations, with defaults.

    Two records of the same class with equal values are equal. Do not derive from a class
    that has fields.
    """

    if TYPE_CHECKING:
        _fields: ClassVar[tuple[str, ...]]
        _names: ClassVar[frozenset[str]]
        _required: ClassVar[frozenset[str]]
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    else:
        # No annotations at run time: msgspec would have to resolve them for every record.
        _fields = ()
        _names = _required = frozenset()
        __dataclass_fields__ = _Described()

    def __init_subclass__(cls) -> None:
        # Once per class: `submit` makes all options of the table each time it starts.
        cls._fields = tuple(cls.__annotations__)
        cls._names = frozenset(cls._fields)
        cls._required = cls._names - vars(cls).keys()

    def __init__(self, *values: Any, **named: Any) -> None:
        given = {**dict(zip(self._fields, values)), **named}  # noqa: B905
        twice = len(given) < len(values) + len(named)
        if twice or not self._required <= given.keys() <= self._names:
            raise TypeError(f"a {type(self).__name__} has these fields: {', '.join(self._fields)}")
        self.__dict__.update(given)

    def but(self, **changes: Any) -> Self:
        """Return the same record with other values of these fields."""
        return type(self)(**{**self.as_dict(), **changes})

    def as_dict(self) -> dict[str, Any]:
        """Return every field's value by name. Nested records stay records."""
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
        raise AttributeError(f"a {type(self).__name__} is frozen; make another")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} is frozen; make another")
