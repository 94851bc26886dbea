"""Convert the parameters of everyday commands to typer's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from radrm.cli.parameters import FLAG, NUMBER, TEXT, TEXTS, WORD, WORDS, Parameter

_TYPES: dict[str, Any] = {
    FLAG: bool,
    TEXT: str,
    TEXTS: list[str],
    NUMBER: int | None,
    WORD: str,
    WORDS: list[str],
}


def typed(
    function: Callable[..., int | None], parameters: Sequence[Parameter]
) -> Callable[..., None]:
    """A typer command that calls `function`. Raises `typer.Exit` with the code it returns."""

    def command(**values: Any) -> None:
        missing = {each.name: each.default for each in parameters if values[each.name] is None}
        if code := function(**{**values, **missing}):
            raise typer.Exit(code)

    described = [_described(each) for each in parameters]
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {each.name: each.annotation for each in described}
    command.__dict__["__signature__"] = inspect.Signature(described)
    return command


def _described(parameter: Parameter) -> inspect.Parameter:
    """The Python parameter from which typer makes an option or argument."""
    kind, about, default = _TYPES[parameter.kind], _about(parameter), parameter.default
    if parameter.is_argument:
        optional = parameter.least is None
        kind, default = (kind | None, None) if optional else (kind, inspect.Parameter.empty)
    return inspect.Parameter(
        *(parameter.name, inspect.Parameter.KEYWORD_ONLY),
        default=default,
        annotation=Annotated[kind, about],
    )


def _about(parameter: Parameter) -> Any:
    metavar = parameter.metavar or None
    if parameter.is_argument:
        return typer.Argument(metavar=metavar, help=parameter.help)
    if parameter.kind != NUMBER:
        return typer.Option(*parameter.flags, metavar=metavar, help=parameter.help)
    bounds: dict[str, Any] = {"min": parameter.least, "max": parameter.most}
    return typer.Option(*parameter.flags, metavar=metavar, help=parameter.help, **bounds)
