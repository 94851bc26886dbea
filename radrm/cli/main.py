"""The entry points: `radrm` and `radrmd`. They print every error as one line."""

from __future__ import annotations

import os
import sys

from radrm.client.text import print_text, say, warn
from radrm.errors import RadrmError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

EXIT_USAGE, EXIT_INTERRUPTED, EXIT_NO_READER = 2, 130, 141


def main() -> None:
    """`radrm`: prints every error as one line, also what ends the import of a command."""
    end(_command)


def daemon() -> None:
    """`radrmd`: the same as `radrm daemon`."""
    if sys.argv[1:] == ["--version"]:
        end(_command)
    sys.argv[1:1] = ["daemon"]
    end(_command)


def _command() -> int:
    words = sys.argv[1:]
    if words[:1] in (["submit"], ["run"]):
        import gc

        gc.disable()  # looking through what is imported takes a twentieth of a submission
    code = answer(words)
    from radrm.cli.listing import ALIASES, COMMANDS

    # Commands of wings may have threads and processes that Python ends.
    return _leave(code) if words and words[0] in (*COMMANDS, *ALIASES) else code


def answer(words: list[str]) -> int:
    """Carry out the words behind `radrm`. Returns the exit code. Raises `RadrmError`."""
    if words[:1] == ["submit"]:
        from radrm.cli.commands.submit import submit

        return submit(words[1:])
    if words[:1] == ["run"]:
        from radrm.cli.commands.run import run

        return run(words[1:])
    from radrm.cli.listing import ALIASES, COMMANDS, commands, of_group

    if words == ["help", "--all"]:
        return _no_command(words)
    if words[:1] == ["help"]:
        name = next(iter(words[1:]), "--help")
        if name[:1] != "-" and name not in ALIASES and name not in commands():
            from radrm.cli.guide import show

            show(name, {**commands(), **ALIASES})
            return 0
        return answer([*words[1:], "--help"])
    if not words or words[0].startswith("-"):
        return _no_command(words)
    name = ALIASES.get(words[0], words[0])
    if name not in COMMANDS and name not in commands():  # the wings are read last
        return _no_command(words)
    if group := of_group(name):
        name = " ".join([name, *words[1:2]])
        return _run(name, words[2:]) if name in group else _only_group(words)
    return _run(name, words[1:])


def _run(name: str, words: list[str]) -> int:
    """Run a command with these words behind its name."""
    from radrm.cli.listing import function_of, parameters_of
    from radrm.jobfile.arguments import parse

    found = parse(parameters_of(name), words, name)
    if found is None:
        return _help(name)
    return function_of(name)(**found) or 0


def _help(name: str) -> int:
    from radrm.cli.help import help_of

    print_text(help_of(name))
    return 0


def _only_group(words: list[str]) -> int:
    """Answer a group of commands without one of them: its help, or a mistake."""
    group, *rest = words
    if rest and rest[0] in ("--help", "-h"):
        return _help(group)
    if not rest:
        _help(group)
        return EXIT_USAGE
    from radrm.cli.listing import of_group
    from radrm.spellings import command_hint

    hint = command_hint(rest[0], [each.split()[1] for each in of_group(group)])
    step = hint or f"see radrm {group} --help"
    raise UsageError(f"{group}: unknown command {rest[0]}; {step}")


def _leave(code: int) -> NoReturn:
    """End at once. Python's own clean-up takes 3 ms, a tenth of the whole command."""
    sys.stdout.flush()
    os._exit(code)


def _no_command(words: list[str]) -> int:
    """Answer a first word that is no command: help, version or a mistake."""
    from radrm import __version__
    from radrm.cli.listing import overview, unknown

    word = words[0] if words else None
    if word is None and sys.stdin and sys.stdin.isatty() and sys.stdout.isatty():
        from radrm.cli.commands.today import today

        return today()
    if word == "--version":
        say(f"radrm {__version__}")
    elif word in (None, "--help", "-h", "help"):
        print_text(f"{overview(whole=word == 'help')}\n")
    else:
        say(unknown(word), error=True)
        return EXIT_USAGE
    sys.stdout.flush()
    return 0 if word else EXIT_USAGE


def end(command: Callable[[], int]) -> NoReturn:
    """Run a command and end the process with its exit code. Prints each error as one line."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the parent process has closed it
            setattr(sys, name, open(os.devnull, "w"))
    try:
        sys.exit(command())
    except RadrmError as error:
        for line in error.lines:
            warn(line)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        _give_up_output()  # the reader has closed its end
        sys.exit(EXIT_NO_READER)
    except OSError as error:
        _give_up_output()
        named = error.filename is not None  # else it is most likely a full disk below the output
        what = str(error.filename) if named else "cannot write the output"
        warn(f"{what}: {error.strerror}")
        sys.exit(1)


def _give_up_output() -> None:
    """Send standard output to /dev/null, so that Python's last flush does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
