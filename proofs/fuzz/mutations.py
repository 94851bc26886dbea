"""Change valid inputs into hostile ones: texts, JSON documents, words of a command line.

Theory of operation. An input begins as a valid example and gets a few changes. Words are exchanged
for words of other examples, so an input stays near to the grammar; others are exchanged for what
breaks parsers: extreme numbers, NUL, halves of characters, line ends that only Python knows, deep
nesting, long runs. The same seed gives the same input.

A text stands for bytes, too: `as_bytes` writes its surrogates as bytes that are not UTF-8.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

USUAL_CHARACTERS = 16 * 1024
"""Characters of most inputs. Some are repeated up to the limit of their target."""
_MOST_CHANGES = 5
_AMPLIFIED = 0.001
"""The part of inputs in which one piece is repeated up to the target's limit."""
_MOST_NODES = 400
"""Values of a document among which one is chosen."""

_TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
_DIGITS = re.compile(r"[0-9]+")

NUMBERS = (
    *("0", "1", "-1", "-0", "00", "1.", ".5", "1e3", "1e309", "-1e309", "1e400", "1e-400", "1_0"),
    *("2147483648", "4294967295", "9007199254740993", "9223372036854775808"),
    *("18446744073709551616", "9" * 30, "9" * 400, "9" * 5000, "0." + "9" * 300),
    *("nan", "NaN", "inf", "-inf", "Infinity", "-Infinity", "0x10", "1e", "--1", "+1"),
    *("٣", "²", "１２", "½", "१०"),  # digits to some functions and not to others
)
STRINGS = (
    *("", " ", "\t", "\n", "\r", "\r\n", "\0", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028"),
    *("\x1b[31m", "\x7f", "\u202e", "\u200b", "\ufeff", "\ufffd", "\ud800", "\udcff", "\udc80"),
    *("é", "ß", "İ", "漢字", "😀", "e\u0301", "a" * 300, "a" * 5000, "/" * 300, "../../etc/passwd"),
    *("%s%n", "{}", "[]", "null", "true", "false", "--", "-", "=", ",", ";", ":", "|", "#", "'"),
    *('"', "\\", "`", "$(id)", "<", ">", "(", ")", "[", "]", "{", "}", "%", "*", "?", "~", "^"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 0.0, -0.0, 0.5, 1e308, float("nan"), float("inf")),
    *(float("-inf"), 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**30, 10**400),
    *("", " ", "\0", "\n", "\x1b[31m", "\u2028", "\ud800", "\udcff", "😀", "a" * 300, "a" * 5000),
    *("none", "null", "..", "/", "1", "-1", "1e309", [], {}, [[]], [None], [0], {"": None}, [{}]),
)
_OPENERS = (("(", ")"), ("[", "]"), ("{", "}"), ('{"a":', "}"), ("'", "'"), ('"', '"'), ("<a>", ""))


def as_bytes(text: str) -> bytes:
    """Return a text as bytes; a surrogate escape is one byte, any other half is not UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class Mutator:
    """Makes hostile inputs from examples, at random. `most`: characters of one text."""

    def __init__(self, random: Random, examples: Sequence[Any], most: int) -> None:
        self.random = random
        self._examples = examples
        self._most = most
        texts = [text for example in examples for text in _texts_of(example)]
        self._words = sorted({word for text in texts for word in _TOKEN.findall(text)}) or [""]
        self._lines = sorted({line for text in texts for line in text.split("\n")}) or [""]
        self._texts = [each for each in examples if isinstance(each, str)]
        self._kinds: tuple[Callable[[str], str], ...] = (
            *(self._delete, self._repeat, self._swap, self._word, self._word, self._number),
            *(self._number, self._insert, self._insert, self._cut, self._line, self._line),
            *(self._splice, self._nest, self._case),
        )
        self._document_kinds = (
            *(self._value, self._value, self._value, self._drop, self._double, self._rename),
            *(self._exchange, self._wrap, self._tweak, self._tweak, self._adopt),
        )

    def input(self) -> Any:
        """Return an input of the kind of an example, changed at most `_MOST_CHANGES` times."""
        example = self.random.choice(self._examples)
        if isinstance(example, str):
            return self.text(example)
        if isinstance(example, tuple):
            return self.words(list(example))
        return self.document(example)

    # ---------------------------------------------------------------- texts

    def text(self, example: str) -> str:
        """Return a text like the example."""
        text = example
        for _ in range(self._changes()):
            text = self.random.choice(self._kinds)(text)
            if len(text) > USUAL_CHARACTERS:
                text = text[:USUAL_CHARACTERS]
        if self.random.random() < _AMPLIFIED:
            text = self._amplify(text)
        return text[: self._most]

    def _changes(self) -> int:
        return min(_MOST_CHANGES, 1 + int(self.random.expovariate(0.8)))

    def _span(self, text: str) -> tuple[int, int]:
        first = self.random.randrange(len(text) + 1)
        length = int(self.random.expovariate(1 / 8)) + 1
        return first, min(len(text), first + length)

    def _token(self, text: str) -> tuple[int, int]:
        """The place of a word near a random place."""
        found = _TOKEN.search(text, self.random.randrange(len(text) + 1))
        return found.span() if found else (len(text), len(text))

    def _delete(self, text: str) -> str:
        first, last = self._span(text) if self.random.random() < 0.5 else self._token(text)
        return text[:first] + text[last:]

    def _repeat(self, text: str) -> str:
        first, last = self._span(text)
        times = self.random.choice((2, 2, 3, 10, 100, 1000))
        most = USUAL_CHARACTERS // max(1, last - first) + 1
        return text[:first] + text[first:last] * min(times, most) + text[last:]

    def _swap(self, text: str) -> str:
        (a, b), (c, d) = sorted((self._token(text), self._token(text)))
        return text if b > c else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]

    def _word(self, text: str) -> str:
        first, last = self._token(text)
        return text[:first] + self._any_word() + text[last:]

    def _any_word(self) -> str:
        kind = self.random.random()
        words = self._words if kind < 0.5 else STRINGS if kind < 0.8 else NUMBERS
        return self.random.choice(words)

    def _number(self, text: str) -> str:
        found = _DIGITS.search(text, self.random.randrange(len(text) + 1)) or _DIGITS.search(text)
        if found is None:
            return text + self.random.choice(NUMBERS)
        if self.random.random() < 0.3:
            number = str(int(found[0][:18]) + self.random.choice((-1, 1)))
        else:
            number = self.random.choice(NUMBERS)
        return text[: found.start()] + number + text[found.end() :]

    def _insert(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        if self.random.random() < 0.3:
            return text[:at] + chr(self.random.choice((0x20, 0x7F, 0x250, 0xFFFF))) + text[at:]
        return text[:at] + self._any_word() + text[at:]

    def _cut(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        return text[:at] if self.random.random() < 0.7 else text[at:]

    def _line(self, text: str) -> str:
        lines = text.split("\n")
        at, to = self.random.randrange(len(lines)), self.random.randrange(len(lines))
        kind = self.random.randrange(5)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(to, lines[at])
        elif kind == 2:
            lines[at], lines[to] = lines[to], lines[at]
        elif kind == 3:
            lines[at] = self.random.choice(self._lines)
        else:
            lines[at : to + 1] = [
                self.random.choice((" ", "", "\t", "\r")).join(lines[at : to + 1])
            ]
        return "\n".join(lines)

    def _splice(self, text: str) -> str:
        other = self.random.choice(self._texts) if self._texts else text
        return text[: self.random.randrange(len(text) + 1)] + other[self._span(other)[0] :]

    def _nest(self, text: str) -> str:
        opener, closer = self.random.choice(_OPENERS)
        first, last = self._token(text)
        deep = self.random.choice((1, 2, 50, 1000, 3000))
        return text[:first] + opener * deep + text[first:last] + closer * deep + text[last:]

    def _case(self, text: str) -> str:
        first, last = self._token(text)
        return text[:first] + text[first:last].swapcase() + text[last:]

    def _amplify(self, text: str) -> str:
        """Repeat one piece up to the limit: what needs more than linear time shows here."""
        first, last = self._token(text) if self.random.random() < 0.5 else self._span(text)
        if self.random.random() < 0.3:
            first, last = 0, len(text)
        piece = text[first:last] or " "
        times = max(1, (self._most - len(text)) // len(piece))
        return text[:first] + piece * times + text[last:]

    # ---------------------------------------------------------------- words of a command line

    def words(self, example: list[str]) -> list[str]:
        """Return words like the example's."""
        for _ in range(self._changes()):
            at, kind = self.random.randrange(len(example) + 1), self.random.random()
            if at == len(example) or kind < 0.2:
                example.insert(at, self._any_word())
            elif kind < 0.3:
                del example[at]
            elif kind < 0.4:
                other = self.random.choice(self._examples)
                example[at:at] = self.random.sample(list(other), min(2, len(other)))
            elif kind < 0.45:
                example[at:at] = [example[at]] * self.random.choice((1, 2, 100))
            else:
                example[at] = self.text(example[at])
        return example

    # ---------------------------------------------------------------- JSON

    def document(self, example: Any) -> str:
        """Return JSON text like the example; a tenth of them is changed as text, too."""
        root = {"": copy.deepcopy(example)}
        for _ in range(self._changes()):
            holder, key = self._node(root)
            self.random.choice(self._document_kinds)(holder, key)
            if "" not in root:
                root[""] = None
        text = json.dumps(root[""], ensure_ascii=self.random.random() < 0.8)
        if self.random.random() < 0.1 or len(text) > self._most:
            text = self.text(text)
        return text

    def _node(self, root: dict[str, Any]) -> tuple[Any, Any]:
        """A value of a document, by what holds it and its key or place there."""
        found: list[tuple[Any, Any]] = [(root, "")]
        for holder, key in found:
            value = holder[key]
            if isinstance(value, dict):
                found += [(value, each) for each in value]
            elif isinstance(value, list):
                found += [(value, at) for at in range(len(value))]
            if len(found) > _MOST_NODES:
                break
        return self.random.choice(found)

    def _value(self, holder: Any, key: Any) -> None:
        holder[key] = copy.deepcopy(self.random.choice(VALUES))

    def _drop(self, holder: Any, key: Any) -> None:
        del holder[key]

    def _double(self, holder: Any, key: Any) -> None:
        times = self.random.choice((1, 2, 300))
        if isinstance(holder, list):
            holder[key:key] = [holder[key]] * times
        else:
            holder[f"{key}2"] = holder[key]

    def _rename(self, holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            name = self.random.choice((*STRINGS, *self._words))
            holder[name] = holder.pop(key)

    def _exchange(self, holder: Any, key: Any) -> None:
        """Put another value of the same document there."""
        other, place = self._node({"": holder})
        holder[key] = copy.deepcopy(other[place])

    def _wrap(self, holder: Any, key: Any) -> None:
        for _ in range(self.random.choice((1, 1, 2, 60))):
            holder[key] = [holder[key]] if self.random.random() < 0.5 else {"a": holder[key]}

    def _tweak(self, holder: Any, key: Any) -> None:
        value = holder[key]
        if isinstance(value, str):
            holder[key] = self.text(value)[:5000]
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            self._value(holder, key)
        else:
            holder[key] = self.random.choice((value + 1, value - 1, -value, value // 3, 0.5, "7"))

    def _adopt(self, holder: Any, key: Any) -> None:
        """Put a value of another example there."""
        example = self.random.choice(self._examples)
        if isinstance(example, (dict, list)):
            other, place = self._node({"": example})
            holder[key] = copy.deepcopy(other[place])


def _texts_of(example: Any) -> list[str]:
    """All texts in an example: of a document its keys and values."""
    if isinstance(example, str):
        return [example]
    if isinstance(example, dict):
        return [t for pair in example.items() for part in pair for t in _texts_of(part)]
    if isinstance(example, (list, tuple)):
        return [text for part in example for text in _texts_of(part)]
    return [str(example)]
