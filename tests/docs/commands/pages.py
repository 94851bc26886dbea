"""What the pages show: code blocks, the shell commands in them, and the commands in sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from tests.paths import REPOSITORY
from tools.site_hooks import MADE, text_of

SHELL = ("sh", "bash", "console")
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_RUN_INSIDE = re.compile(r"\$\((radrm [^()]*)\)")
_DESCRIPTOR = re.compile(r"(?<=\s)\d(?=[<>])")
_BETWEEN = (";", "&&", "||", "|", "&", "|&", ";;", "(", ")", "((", "))")


def pages() -> list[Path]:
    """All pages of the documentation, those that are made from the code included."""
    found = [*(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / path for path in MADE)]
    named = ("README.md", "systemd/README.md", "examples/README.md", "CONTRIBUTING.md")
    return sorted([*found, *(REPOSITORY / name for name in named)])


@dataclass(frozen=True, slots=True)
class Block:
    """A code block. `kind` is the first word behind its fence, `file` the file that the reader is
    told to write."""

    page: str
    line: int
    kind: str
    file: str
    text: str

    @property
    def is_job_file(self) -> bool:
        return self.kind == "bash" and self.text.startswith(("#!", "#RAD"))

    def lines(self) -> list[str]:
        """The command lines, without prompts, outputs, remarks and line ends in between."""
        whole = re.sub(r"\\\n\s*", "", self.text).splitlines()
        if self.kind == "console":
            whole = [line[2:] for line in whole if line.startswith("$ ")]
        return [line for line in map(str.strip, whole) if line and not line.startswith("#")]


def blocks(page: Path) -> Iterator[Block]:
    """The code blocks of a page, also those that are only indented."""
    name = page.relative_to(REPOSITORY).as_posix()
    for token in _MARKDOWN.parse(text_of(name)):
        if token.type in ("fence", "code_block"):
            kind, _, rest = token.info.partition(" ")
            line = (token.map or [0])[0] + 1
            yield Block(name, line, kind, rest.partition("file=")[2], token.content)


def spoken(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of radrm in a sentence or table of a page, and where it stands."""
    for token in _MARKDOWN.parse(text_of(page.relative_to(REPOSITORY).as_posix())):
        for child in token.children or ():
            if child.type == "code_inline" and child.content.startswith("radrm "):
                where = f"{page.relative_to(REPOSITORY)}:{(token.map or [0])[0] + 1}"
                yield where, child.content


def simple_commands(line: str) -> Iterator[list[str]]:
    """The words of each command of a shell's line, without redirections and assignments."""
    for inside in _RUN_INSIDE.findall(line):
        yield shlex.split(inside)
    shell = shlex.shlex(_DESCRIPTOR.sub("", line), posix=True, punctuation_chars=True)
    shell.whitespace_split = True
    words: list[str] = []
    into_file = False
    for word in [*shell, ";"]:
        if word in _BETWEEN:
            if words:
                yield words
            words = []
        elif set(word) <= set("<>&"):
            into_file = True
        elif into_file:
            into_file = False
        elif words or not re.fullmatch(r"\w+=.*", word):
            words.append(word)
