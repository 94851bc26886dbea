"""JSON of the socket and of envelopes, for commands that people wait for.

The package `json` imports `re`, which costs a short command several milliseconds. This is its C
code without that: what is written and read is the same. Python promises nothing of that code, so
where it is missing, or is called in another way, the package does the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _AsPackage:
    """What `json.loads` reads by."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = float


def _refuse(value: object) -> None:
    raise TypeError(f"JSON has no {type(value).__name__}")


try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    _chunks: Any = make_encoder(
        None, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
    _by: Any = _AsPackage  # the package gives its own class
    _scan: Any = make_scanner(_by)
except (ImportError, TypeError, AttributeError):
    from json import JSONDecoder, JSONEncoder

    _chunks = JSONEncoder(default=_refuse).iterencode
    _scan = JSONDecoder(parse_constant=float).raw_decode


def encode(value: Any) -> str:
    """Return a value as one line of ASCII. Raises TypeError for what JSON has not."""
    return "".join(_chunks(value, 0))


def decode(data: bytes) -> Any:
    """Return the value of a document. Raises ValueError."""
    text = data.decode().strip()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = -1
    if end != len(text):
        raise ValueError("this is not one document of JSON")
    return value
