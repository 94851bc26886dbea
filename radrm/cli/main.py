"""The entry points: `radrm` and `radrmd`. Every error that a user may see ends here."""

from __future__ import annotations

import os
import sys

from radrm.errors import RadrmError, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

EXIT_USAGE, EXIT_INTERRUPTED, EXIT_NO_READER = 2, 130, 141


def main() -> None:
    """`radrm`: light paths for help, version, mistakes and `submit`, typer for the rest."""
    from radrm.cli.listing import COMMANDS

    words = sys.argv[1:]
    if words[:1] == ["help"]:
        sys.argv[1:] = words = [*words[1:2], "--help"]
    if words[:1] == ["submit"]:
        _end(_submit)
    _end(_others if words and words[0] in COMMANDS else _no_command)


def daemon() -> None:
    """`radrmd`: `radrm daemon` under the name that a service manager starts."""
    sys.argv[1:1] = ["daemon"]
    _end(_others)


def _submit() -> NoReturn:
    from radrm.cli.commands.submit import run

    code = run(sys.argv[2:])
    print(end="", flush=True)
    os._exit(code)  # Python would tidy up for 3 ms, a tenth of the time that people wait


def _no_command() -> int:
    """What to say where the first word is no command."""
    from radrm import __version__
    from radrm.cli.listing import overview, unknown

    word = sys.argv[1] if len(sys.argv) > 1 else None
    if word == "--version":
        print(f"radrm {__version__}")
    elif word is None or word == "--help":
        print(overview())
    else:
        print(plain(unknown(word)), file=sys.stderr)
        return EXIT_USAGE
    sys.stdout.flush()
    return 0 if word else EXIT_USAGE


def _others() -> int:
    import typer

    from radrm.cli.app import make_app
    from radrm.cli.usage import UsageTrouble, in_one_line

    app = make_app(sys.argv[1])
    try:
        code = app(prog_name="radrm", standalone_mode=False)
    except UsageTrouble as error:
        text = in_one_line(error)
        print(text, file=sys.stderr if text.startswith("radrm") else sys.stdout)
        return EXIT_USAGE
    except typer.Abort:
        return EXIT_INTERRUPTED
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _end(command: Callable[[], int]) -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))
    try:
        sys.exit(command())
    except RadrmError as error:
        # Paths and names in it are anybody's.
        print(f"radrm: {plain(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        _give_up_output()  # whoever read has had enough
        sys.exit(EXIT_NO_READER)
    except OSError as error:
        _give_up_output()
        print(f"radrm: cannot write the output: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def _give_up_output() -> None:
    """So that Python does not find out again while it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
