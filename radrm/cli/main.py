"""The entry points: `radrm` and `radrmd`. They print every error as one line."""

from __future__ import annotations

import os
import sys

from radrm.client.text import print_text, say, warn
from radrm.errors import RadrmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

EXIT_USAGE, EXIT_INTERRUPTED, EXIT_NO_READER = 2, 130, 141


def main() -> None:
    """`radrm`: prints every error as one line, also what ends the import of a command."""
    end(_command)


def _command() -> int:
    """Answer help, version, mistakes and usual command lines without typer."""
    from radrm.cli.listing import ALIASES, COMMANDS, commands, of_group

    words = sys.argv[1:]
    if words == ["help", "--all"]:
        return _no_command()
    if words[:1] == ["help"]:
        name = next(iter(words[1:]), "--help")
        if name[:1] != "-" and name not in ALIASES and name not in commands():
            from radrm.cli.guide import show

            show(name, {**commands(), **ALIASES})
            return 0
        sys.argv[1:] = words = [*words[1:], "--help"]
    if words and words[0] in ALIASES:
        sys.argv[1] = words[0] = ALIASES[words[0]]
    if words[:1] in (["submit"], ["run"]):
        _of_the_option_table()
    if words[:1] == ["slurm-step"] and len(words) > 1 and not words[1].startswith("-"):
        sys.argv.insert(2, "--")  # what stands behind the file belongs to the job
    if not words or words[0].startswith("-"):
        return _no_command()
    if words[0] not in COMMANDS and words[0] not in commands():  # the wings are read last
        return _no_command()
    if not (group := of_group(words[0])):
        return _run(words[0])
    name = " ".join(words[:2])
    return _run(name) if name in group else _by_typer()


def daemon() -> None:
    """`radrmd`: the same as `radrm daemon`."""
    if sys.argv[1:] == ["--version"]:
        end(_no_command)
    sys.argv[1:1] = ["daemon"]
    end(lambda: _run("daemon"))


def _of_the_option_table() -> NoReturn:
    """`submit` and `run` read their arguments themselves."""
    import gc

    gc.disable()  # looking through what is imported takes a twentieth of a submission
    if sys.argv[1] == "submit":
        from radrm.cli.commands.submit import run
    else:
        from radrm.cli.commands.run import run

    _leave(run(sys.argv[2:]))


def _run(name: str) -> int:
    """Run a command; with typer if its command line is unusual."""
    from radrm.cli.listing import COMMANDS, function_of, parameters_of
    from radrm.cli.parameters import parse

    words = parse(parameters_of(name), sys.argv[1 + len(name.split()) :])
    if words is None:
        return _by_typer()
    code: int = function_of(name)(**words) or 0
    # Those of wings may have threads and processes that Python ends.
    return _leave(code) if name.split()[0] in COMMANDS else code


def _leave(code: int) -> NoReturn:
    """End at once. Python's own clean-up takes 3 ms, a tenth of the whole command."""
    sys.stdout.flush()
    os._exit(code)


def _no_command() -> int:
    """Answer a first word that is no command: help, version or a mistake."""
    from radrm import __version__
    from radrm.cli.listing import overview, unknown

    word = sys.argv[1] if len(sys.argv) > 1 else None
    if word is None and sys.stdin and sys.stdin.isatty() and sys.stdout.isatty():
        from radrm.cli.commands.today import today

        return _leave(today())
    if word == "--version":
        say(f"radrm {__version__}")
    elif word in (None, "--help", "-h", "help"):
        print_text(f"{overview(whole=word == 'help')}\n")
    else:
        say(unknown(word), error=True)
        return EXIT_USAGE
    sys.stdout.flush()
    return 0 if word else EXIT_USAGE


def _by_typer() -> int:
    import typer

    from radrm.cli.app import WrongUsage, in_one_line, make_app

    app = make_app(sys.argv[1])
    try:
        code = app(prog_name="radrm", standalone_mode=False)
    except WrongUsage as error:
        if (mistake := in_one_line(error)) is None:
            print_text(f"{error.format_message()}\n")  # a group without a command: its help
        else:
            say(mistake, error=True)
        return EXIT_USAGE
    except typer.Abort:
        return EXIT_INTERRUPTED
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


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
