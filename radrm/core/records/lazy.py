"""`dataclass`, whose methods are compiled when they are first called.

The standard library's compiles six methods for each class while it is imported. For the records of
the core this was a third of the daemon's start, and most methods are never called. Here they are
the standard library's too, of a twin of the class that has only the method needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_NO_METHOD = {"init": False, "repr": False, "eq": False}
_OPTIONS: dict[str, dict[str, bool]] = {
    "__init__": {"init": True},
    "__repr__": {"repr": True},
    "__eq__": {"eq": True},
    "__hash__": {"eq": True, "unsafe_hash": True},
}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
    ) -> Callable[[type], type]:
        """As `dataclasses.dataclass`, for classes that none with other decorators derive from."""

        def made(cls: type) -> type:
            own = set(vars(cls))
            cls.__doc__ = cls.__doc__ or cls.__name__  # or `dataclasses` would make one, slowly
            cls = dataclasses.dataclass(**_NO_METHOD, slots=slots, kw_only=kw_only)(cls)
            methods = ["__init__", "__repr__"]
            if eq:
                methods += ["__eq__", "__hash__"] if frozen else ["__eq__"]
                if not frozen and "__hash__" not in own:
                    cls.__hash__ = None
            for name in methods:
                if name not in own:
                    setattr(cls, name, _compiled_later(cls, name, frozen))
            if frozen:
                cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
                cls.__getstate__, cls.__setstate__ = _values, _set_values
            return cls

        return made


def _compiled_later(cls: type, name: str, frozen: bool) -> Callable[..., Any]:
    def method(self: object, *values: Any, **named: Any) -> Any:
        options: dict[str, Any] = {**_NO_METHOD, **_OPTIONS[name], "frozen": frozen}
        fields = dataclasses.fields(cls)
        body = {
            "__doc__": cls.__doc__,
            "__module__": cls.__module__,
            "__annotations__": {field.name: field.type for field in fields},
            **{field.name: _copy(field) for field in fields},
        }
        twin: type = dataclasses.dataclass(**options)(type(cls.__name__, (), body))
        compiled = vars(twin)[name]
        compiled.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, compiled)
        return compiled(self, *values, **named)

    return method


def _copy(field: dataclasses.Field[Any]) -> Any:
    options = ("init", "repr", "hash", "compare", "kw_only", "default", "default_factory")
    return dataclasses.field(**{name: getattr(field, name) for name in options})


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _values(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_values(self: Any, values: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), values, strict=True):
        object.__setattr__(self, field.name, value)
