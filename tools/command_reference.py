"""The page of all commands, from the declarations of which the manual pages are made.

    python -m tools.command_reference

prints it. `tools/site_hooks.py` adds it to the site as `commands.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from radrm.cli.listing import ALIASES, groups
from radrm.jobfile.options import OPTIONS
from tools.declared import Command, Declared, commands

_HEAD = """\
# Commands

The same text as `radrm COMMAND --help` and the manual pages (`man radrm-status`). `JOB` is an id
(`12`), an array, an element (`12_3`), a ticket, a name, a glob (`'sweep-*'`), or `@`: your last
submission (`@~1`: the one before).

Other names: {aliases}.

**Exit codes:** 0 success, 1 the request failed, 2 usage, 3 no daemon answers. `wait`,
`logs -f` and `submit --wait` end with the job's exit code: 124 at its time limit, 125 if it was
lost or never started, 127 if its program does not exist and 126 if that cannot be run (`submit` and
`run` end so at once), 128+n after signal n.
"""
_OF_A_JOB = {
    "run": "The [options of a job](#radrm-submit) but those of arrays, and:",
    "edit": "The [options of a job](#radrm-submit) but those of arrays, and:",
    "requeue": "The [options of a job](#radrm-submit) but those of arrays, and:",
}
_GAP = re.compile(r" {2,}")
_MEANT_AS_WRITTEN = re.compile(r"`[^`]*`|[*_<\[\]\\]")


def reference() -> str:
    """Return the whole page."""
    aliases = ", ".join(f"`{short}` is `{name}`" for short, name in ALIASES.items())
    parts = [_HEAD.format(aliases=aliases)]
    known = commands()
    for title, group in groups().items():
        parts.append(f"## {title}\n")
        parts += ["\n".join(_section(c)) for c in known if c.name.partition(" ")[0] in group]
    return "\n".join(parts)


def _section(command: Command) -> Iterator[str]:
    yield f"### radrm {command.name}\n"
    yield _plain(command.about) + "\n"
    yield "\n".join(["```text", *command.usage, "```"]) + "\n"
    for paragraph in filter(None, command.text.split("\n\n")):
        yield _plain(" ".join(paragraph.split())) + "\n"
    rows = command.parameters
    if command.name in _OF_A_JOB:
        yield _OF_A_JOB[command.name] + "\n"
        of_a_job = {f"--{option.name}" for option in OPTIONS}
        rows = tuple(each for each in rows if not of_a_job.intersection(each.flags))
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *map(_row, rows)]) + "\n"
    if command.examples:
        yield "\n".join(["```sh", *_examples(command.examples.splitlines()), "```"]) + "\n"


def _row(each: Declared) -> str:
    names = [f"`{' '.join(filter(None, (flag, each.metavar)))}`" for flag in each.flags]
    cells = (", ".join(names) or f"`{each.metavar}`", _plain(each.help))
    return "| {} | {} |".format(*(cell.replace("|", r"\|") for cell in cells))


def _examples(lines: list[str]) -> Iterator[str]:
    """Yield the commands, with what stands behind them as a remark."""
    for line in lines:
        command, *remark = [line] if line.startswith(" ") else _GAP.split(line, maxsplit=1)
        if line.endswith(":"):
            yield f"# {line}"
        else:
            yield f"{command:<40}  # {remark[0]}" if remark else line


def _plain(text: str) -> str:
    """Text in which Markdown sees nothing but code spans."""
    return _MEANT_AS_WRITTEN.sub(lambda m: m[0] if m[0][0] == "`" else "\\" + m[0], text)


if __name__ == "__main__":
    print(reference())
