"""A command line that a shell completes: the place of its last word, and the candidates for it."""

from __future__ import annotations

import json
import os

from radrm.client.connection import Client
from radrm.client.text import my_name
from radrm.errors import RadrmError, plain
from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

TABLE = os.path.join(os.path.dirname(__file__), "words.json")
ASKED = ("jobs", "gpus", "users")
"""Values that the daemon is asked for."""
FILES, FOLDERS, COMMAND = "files", "folders", "command"
"""What the shell itself completes."""
_GLUE = frozenset("=:")


class Place(Record):
    """What is completed. `prefix` is the part of the word before the value, as `--user=`.

    `values`: their kind (`jobs`, `files`...), or the words to choose from; None: not known.
    `several`: a list with commas. `candidates`: the words themselves, with their help.
    """

    command: str = ""
    prefix: str = ""
    start: str = ""
    values: str | list[str] | None = None
    several: bool = False
    candidates: tuple[tuple[str, str], ...] = ()


def table() -> dict[str, Any]:
    """The options and arguments of all commands. Raises OSError."""
    with open(TABLE, encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def glued(words: Sequence[str]) -> tuple[list[str], int]:
    """The words of a line of bash, which divides words at `=` and `:`.

    Returns also how many characters of the last word bash keeps.
    """
    found: list[str] = []
    open_end = False
    for word in words:
        breaks = bool(word) and set(word) <= _GLUE
        if found and (breaks or open_end):
            found[-1] += word
        else:
            found.append(word)
        open_end = breaks
    last = words[-1] if words and not open_end else ""
    return found, len(found[-1]) - len(last) if found else 0


def place(words: Sequence[str], known: dict[str, Any], aliases: dict[str, str]) -> Place:
    """What the last of `words` is. They are those behind `radrm`, as typed; `known` is `table()`.

    A line that no command takes has no candidates.
    """
    *before, word = words
    commands = known["commands"]
    if before[:1] == ["help"] and len(before) == 1:
        before = []
    name, depth = "", 0
    while depth < len(before):
        first = aliases.get(before[depth], before[depth]) if depth == 0 else before[depth]
        name = f"{name} {first}".strip()
        depth += 1
        if name in commands:
            return _of_command(name, commands[name], before[depth:], word)
    return Place(candidates=_names(name, commands, word))


def _names(group: str, commands: dict[str, Any], word: str) -> tuple[tuple[str, str], ...]:
    """The commands of a group; of no group: all, and the options of `radrm` itself."""
    head = f"{group} " if group else ""
    names: dict[str, str] = {}
    for name, (about, _) in commands.items():
        if name.startswith(head):
            first, more, _ = name[len(head) :].partition(" ")
            names.setdefault(first, "" if more else about)
    if word.startswith("-"):
        names = {} if group else {"--help": "Show all commands.", "--version": "Show the version."}
    return tuple((name, about) for name, about in names.items() if name.startswith(word))


def _of_command(name: str, entry: Any, before: Sequence[str], word: str) -> Place:
    parameters = entry[1]
    options = {flag: each for each in parameters for flag in each["flags"]}
    arguments = [each for each in parameters if not each["flags"]]
    count, wanted = 0, None
    for at, each in enumerate(before):
        if wanted is not None:
            wanted = None
        elif each == "--":
            rest = len(before) - at - 1
            return _behind_dashes(name, arguments, count, rest, word)
        elif each.startswith("-") and each != "-":
            option = options.get(each)
            wanted = option if option is not None and option["takes"] else None
        else:
            count += 1
    if wanted is not None:
        return _value(name, wanted, "", word)
    flag, equals, text = word.partition("=")
    if equals and flag in options and options[flag]["takes"]:
        return _value(name, options[flag], f"{flag}=", text)
    if word.startswith("-"):
        return Place(name, candidates=_flags(parameters, word))
    return _argument(name, arguments, count, word)


def _behind_dashes(name: str, arguments: Any, count: int, rest: int, word: str) -> Place:
    if any(each["values"] == COMMAND for each in arguments):
        return Place(name, start=word, values=FILES if rest else COMMAND)
    return _argument(name, arguments, count + rest, word)


def _argument(name: str, arguments: Any, count: int, word: str) -> Place:
    plain = [each for each in arguments if each["values"] != COMMAND]
    if arguments and not plain:
        return Place(name, start=word, values=FILES if count else COMMAND)
    if count < len(plain) or (plain and plain[-1]["many"]):
        return _value(name, plain[min(count, len(plain) - 1)], "", word)
    return Place(name)


def _value(name: str, parameter: Any, prefix: str, text: str) -> Place:
    several = bool(parameter["several"])
    done = text[: text.rfind(",") + 1] if several else ""
    return Place(name, prefix + done, text[len(done) :], parameter["values"], several)


def _flags(parameters: Any, word: str) -> tuple[tuple[str, str], ...]:
    found = [(flag, each["help"]) for each in parameters for flag in each["flags"]]
    found += [("--help", "Show the help.")] if ("--help", "Show the help.") not in found else []
    # Short options are offered behind a single dash only.
    return tuple(
        (flag, about)
        for flag, about in dict(reversed(found)).items()
        if flag.startswith(word) and (flag.startswith("--") or word == "-")
    )[::-1]


_LIMIT_S = 1.0
_MOST = 200
"""Jobs that are looked at. Nobody reads more candidates."""
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+,/-")
"""Characters that no shell gives a meaning. Names are chosen by other users, too."""
_OF_UNFINISHED = frozenset({"cancel", "hold", "release", "edit", "checkpoint", "migrate", "resize"})
"""Commands that have nothing to do with jobs that have ended."""


def candidates(place: Place, known: dict[str, Any]) -> list[tuple[str, str]]:
    """The values that begin as the word does, each with its help. Without a daemon that answers
    there are none of its own."""
    kind = place.values
    try:
        if isinstance(kind, list):
            found = [(word, "") for word in kind]
        elif kind == "settings":
            found = [(f"{key}=", "") for key in known["settings"]]
        elif kind in _ASK:
            found = list(_ASK[kind](place))
        else:
            return []
    except (RadrmError, OSError):
        return []
    return [(text, about) for text, about in dict(found).items() if text.startswith(place.start)]


def _jobs(place: Place) -> Iterator[tuple[str, str]]:
    """The user's own jobs, by label and by name; root's: all jobs."""
    words: dict[str, Any] = {"all": place.command not in _OF_UNFINISHED}
    if place.start and set(place.start) <= _SAFE and not place.start[0].isdigit():
        words["jobs"] = [f"{place.start}*"]
    elif os.getuid() != 0:
        words["user"] = my_name()
    rows = _ask("page", **words, offset=0, limit=_MOST)["jobs"]
    for row in rows:
        several = row.get("count", 1) > 1
        label = str(row["array_id"] if several else row["label"])
        yield label, plain(f"{row['name']}, {row['state']}")
    for row in rows:
        if _is_safe(row["name"]):
            yield row["name"], plain(f"job {row['label']}, {row['state']}")


def _gpus(place: Place) -> Iterator[tuple[str, str]]:
    for gpu in _ask("gpus"):
        yield str(gpu["index"]), plain(f"{gpu['name']}, {gpu['state']}")


def _users(place: Place) -> Iterator[tuple[str, str]]:
    for each in _ask("shares")["users"]:
        if _is_safe(each["user"]):
            yield each["user"], f"{each['running']} running, {each['waiting']} waiting"


_ASK = {"jobs": _jobs, "gpus": _gpus, "users": _users}


def _is_safe(name: str) -> bool:
    return bool(name) and set(name) <= _SAFE and not name.startswith("-")


def _ask(op: str, **words: Any) -> Any:
    with Client(limit_s=_LIMIT_S) as client:
        return client.ask(op, **words) if client.is_up() else _NOTHING.get(op, [])


_NOTHING: dict[str, Any] = {"page": {"jobs": []}, "shares": {"users": []}}
