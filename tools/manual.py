"""The manual pages in man/, and the words that completion offers, from the declarations.

    python -m tools.manual

writes both. The words are committed, since completion reads them; a test fails while they are out
of date. The pages are not: `make package` and `make deb` write them first.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from radrm import __version__
from radrm.cli.completion.line import TABLE
from radrm.cli.listing import ALIASES, groups
from radrm.config import Config
from tools.declared import Command, Declared, commands

PAGES = Path(__file__).parents[1] / "man"
DATE = "2026-11-23"
"""Of the last change of the texts. A page needs one."""
_OPENING = (".", "'")
_SPOKEN = re.compile(r"`([^`]*)`")

_EXIT = """\
0: fine. 1: the request failed. 2: the command line or the configuration is wrong. 3: no daemon
answers. `radrm wait`, `submit --wait` and `logs -f` end with the job's exit code: 124 at its time
limit, 125 if it was lost or never started, 127 if its program does not exist and 126 if that cannot
be run (`submit` and `run` end so at once), 128+n after signal n."""
_FILES = (
    ("/etc/radrm/radrm.toml, ~/.config/radrm/radrm.toml", "the configuration"),
    ("/var/lib/radrm, ~/.local/state/radrm", "the state of the daemon"),
)
_ENVIRONMENT = (
    ("RADRM_HOME", "one folder for all files, as for a second daemon"),
    ("RADRM_CONFIG", "the configuration file"),
    ("NO_COLOR", "no colours"),
)


# ------------------------------------------------------------------ words of completion


def words() -> str:
    """The text of words.json: a line for each command and setting."""
    rows = [
        f"  {json.dumps(each.name)}: {json.dumps([each.about, [*map(_word, each.parameters)]])}"
        for each in commands()
    ]
    settings = [f"  {json.dumps(key)}" for key in settings_keys()]
    joined, keys = ",\n".join(rows), ",\n".join(settings)
    return f'{{"commands": {{\n{joined}\n}}, "settings": [\n{keys}\n]}}\n'


def _word(each: Declared) -> dict[str, Any]:
    found = {"flags": each.flags, "takes": each.takes, "help": each.help if each.flags else ""}
    return {**found, "values": each.values, "several": each.several, "many": each.many}


def settings_keys() -> list[str]:
    """The dotted key of each setting that `--set` takes, without those of rules."""
    return list(_keys(Config().to_table(), ""))


def _keys(table: dict[str, Any], head: str) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{head}{key}.")
        else:
            yield f"{head}{key}"


# ------------------------------------------------------------------ manual pages


def page(command: Command) -> str:
    """The manual page of one command."""
    name = "radrm-" + command.name.replace(" ", "-")
    lines = [
        *_head(name, command.about),
        ".SH SYNOPSIS",
        *_lines_of(".br", command.usage),
        ".SH DESCRIPTION",
        *_text(command.about),
        *_paragraphs(command.text),
    ]
    options = [each for each in command.parameters if each.flags]
    arguments = [each for each in command.parameters if not each.flags and each.help]
    for title, some in (("ARGUMENTS", arguments), ("OPTIONS", options)):
        if some:
            lines.append(f".SH {title}")
            for each in some:
                lines += [".TP", f".B {_shown(each)}", *_text(each.help or "see above")]
    if command.examples:
        lines += [".SH EXAMPLES", ".nf", *map(_line, command.examples.splitlines()), ".fi"]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR radrm (1)"]) + "\n"


def main_page() -> str:
    """The manual page of `radrm` itself."""
    known = commands()
    about = "queue jobs for the GPUs of a server"
    lines = [
        *_head("radrm", about),
        ".SH SYNOPSIS",
        r"radrm COMMAND [ARGS]...",
        ".SH DESCRIPTION",
        *_text(
            "radrm queues jobs for the GPUs of one server, several on one GPU where that is safe. "
            "Each command has a page of its own, as radrm-status(1)."
        ),
    ]
    for title, group in groups().items():
        lines += [f".SH {_line(title).upper()}"]
        for each in known:
            if each.name.partition(" ")[0] in group:
                page_name = "radrm-" + each.name.replace(" ", "-")
                lines += [".TP", f".BR {_line(page_name)} (1)", *_text(each.about)]
    lines += [".SH OTHER NAMES"]
    lines += _text(", ".join(f"{short} is {name}" for short, name in ALIASES.items()) + ".")
    lines += [".SH EXIT STATUS", *_text(" ".join(_EXIT.split()))]
    for title, rows in (("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
        lines += [f".SH {title}"]
        for name, meaning in rows:
            lines += [".TP", f".B {_line(name)}", *_text(meaning)]
    return "\n".join(lines) + "\n"


def _head(name: str, about: str) -> list[str]:
    title = _line(name.upper())
    return [
        rf'.TH {title} 1 "{DATE}" "radrm {__version__}" "radrm"',
        ".SH NAME",
        rf"{_line(name)} \- {_line(about.rstrip('.'))}",
    ]


def _shown(each: Declared) -> str:
    metavar = each.metavar or ""
    equals = " " if metavar else ""
    names = [f"{flag}{equals}{metavar}" for flag in each.flags] or [metavar]
    return _line(", ".join(names))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(None, text.split("\n\n")):
        yield ".PP"
        yield from _text(" ".join(paragraph.split()))


def _text(text: str) -> list[str]:
    """A paragraph: a line for each sentence, as roff has it."""
    spoken = _SPOKEN.sub(r"\1", text)
    return [_line(sentence) for sentence in re.split(r"(?<=[.:]) (?=[A-Z0-9])", spoken)]


def _lines_of(between: str, texts: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for text in texts:
        found += [between, _line(text)] if found else [_line(text)]
    return found


def _line(text: str) -> str:
    """A line of text in which roff sees no request and no hyphen that it may break at."""
    safe = text.replace("\\", r"\e").replace("-", r"\-").replace("~", r"\(ti").replace("^", r"\(ha")
    return rf"\&{safe}" if safe.startswith(_OPENING) else safe


def pages() -> dict[Path, str]:
    """The manual pages, and what belongs in them."""
    found = {f"radrm-{each.name.replace(' ', '-')}.1": page(each) for each in commands()}
    found["radrm.1"] = main_page()
    return {PAGES / name: text for name, text in found.items()}


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    made = pages()
    for path, text in {Path(TABLE): words(), **made}.items():
        path.write_text(text, "utf-8")
    for path in set(PAGES.iterdir()) - set(made):
        path.unlink()  # of a command that is gone
    print(f"{TABLE} and {PAGES}: written", file=sys.stderr)
