"""The text of a submitted file, read once for everybody: its lines, and what is only data in them.

Theory of operation
-------------------
Editors leave a byte order mark at the start, and Windows' line ends. Both would become part of the
first line and of every last word, so they are taken off here, before anybody looks: the readers of
`#RAD` and `#SBATCH` lines, the notes, and the copy that the job runs. What is no text is refused.

Options stand in comments before the first command. What looks like one behind it has no effect,
unless it is data: a line of a here-document, or of a text in quotes that goes over several lines,
as in a script that writes job files. The lexers know shells and Python; in another language every
line counts.
"""

from __future__ import annotations

from radrm.errors import BadFile
from radrm.jobfile.record import Record

MAX_BYTES = 1 << 20
_MARKS = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x00\x00\xfe\xff": "UTF-32",
}
_PYTHON = r"""(?xs)
      \#[^\n]*
    | (?P<long> "{3} | '{3} ) (?: \\. | (?!(?P=long)) . )* (?P=long)
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    """
"""Comments and strings of Python. Few scripts are searched for them, so it is compiled later."""


class Text(Record):
    """A submitted text with plain line ends, and notes about what was changed."""

    text: str
    lines: tuple[str, ...]
    """The first one has the number 1 where people read it."""
    notes: tuple[str, ...] = ()

    @property
    def commands(self) -> list[tuple[int, str]]:
        """The number and the words of each line that is neither blank nor a comment."""
        found = ((number, line.strip()) for number, line in enumerate(self.lines, 1))
        return [(number, line) for number, line in found if line and line[0] != "#"]

    def matching_from(self, first_command: int, word: str, whole: bool = False) -> list[int]:
        """Return the numbers of lines behind the first command that begin with a word, and are no
        data. `whole`: no other letters follow it, and blanks may stand before it."""
        later = enumerate(self.lines[first_command:], first_command + 1)
        found = [
            number
            for number, line in later
            if (line.split(None, 1)[:1] == [word] if whole else line.startswith(word))
        ]
        if not found:
            return []
        data = self.data_lines()
        return [number for number in found if number not in data]

    def data_lines(self) -> frozenset[int]:
        """Return the numbers of the lines that begin inside a here-document or a quoted text."""
        import re  # few scripts are read so closely

        first = self.lines[0]
        if re.match(r"#!.*python", first):
            spans = [found.span() for found in re.finditer(_PYTHON, self.text) if found["long"]]
        elif not first.startswith("#!") or re.match(r"#!.*\b(?:ba|da|z|k|a)?sh\b", first):
            from radrm.jobfile.shell import spans_of_data  # few scripts need it

            spans = spans_of_data(self.text)
        else:
            return frozenset()
        numbers: set[int] = set()
        number, place = 1, 0
        for start, end in spans:
            number += self.text.count("\n", place, start)
            inside = self.text.count("\n", start, end)
            numbers |= set(range(number + 1, number + inside + 1))
            number, place = number + inside, end
        return frozenset(numbers)


def read_text(data: bytes, where: str) -> Text:
    """Return the text of a submitted file. Raises `BadFile` for what is none."""
    if len(data) > MAX_BYTES:
        raise BadFile(f"{where}: larger than 1 MiB; submit a script that starts your program")
    if not data.strip():
        raise BadFile(f"{where}: empty; write the command that starts the job")
    if (encoding := _wide(data)) is not None:
        raise BadFile(f"{where}: {encoding}; save the file as UTF-8")
    if (nul := data.find(b"\0")) >= 0:
        raise BadFile(f"{where}: NUL byte at offset {nul}; submit a text file, not a program")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(
            f"{where}: not UTF-8 at byte offset {error.start}; save the file as UTF-8"
        ) from None
    notes = []
    if text.startswith("\ufeff"):
        text = text.lstrip("\ufeff")
        notes.append("the byte order mark at the start of the file is ignored")
    if "\r" in text.strip() and "\n" not in text:
        raise BadFile(f"{where}: its lines end in CR alone; save the file with Unix line ends (LF)")
    if "\r" in text:
        # A `\r` after an interpreter or a command would become part of its name.
        plain = "\n".join(line.rstrip("\r") for line in text.split("\n"))
        if plain != text:
            notes.append("Windows line ends (CRLF) are read as plain ones")
        text = plain
    if not text.strip():
        raise BadFile(f"{where}: empty; write the command that starts the job")
    return Text(text, tuple(text.split("\n")), tuple(notes))


def _wide(data: bytes) -> str | None:
    """Return the encoding of a text whose characters have two or four bytes; None for others."""
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return "UTF-32" if data[2:4] == b"\0\0" else name
    head = data[:64]
    if len(head) >= 4 and any(head) and (not any(head[1::2]) or not any(head[::2])):
        return "UTF-16"
    return None
