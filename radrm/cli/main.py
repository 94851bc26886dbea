"""The entry points: `radrm` and `radrmd`. Every error that a user may see ends here."""

from __future__ import annotations

import os
import sys

from radrm.errors import RadrmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def main() -> None:
    """`radrm`: the light path for `submit`, typer for the rest."""
    _end(_submit if sys.argv[1:2] == ["submit"] else _others)


def daemon() -> None:
    """`radrmd`: `radrm daemon` under the name that a service manager starts."""
    sys.argv[1:1] = ["daemon"]
    _end(_others)


def _submit() -> NoReturn:
    from radrm.cli.submit import run

    code = run(sys.argv[2:])
    print(end="", flush=True)
    os._exit(code)  # Python would tidy up for 3 ms, a tenth of the time that people wait


def _others() -> int:
    from radrm.cli.app import make_app

    app = make_app(sys.argv[1] if len(sys.argv) > 1 else None)
    app(prog_name="radrm")
    return 0


def _end(command: Callable[[], int]) -> None:
    try:
        sys.exit(command())
    except RadrmError as error:
        print(f"radrm: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read has had enough; and Python must not find out again while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
