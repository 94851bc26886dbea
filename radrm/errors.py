"""The errors that a user may see, and their exit codes. Each is one line of text.

    RadrmError                  the request failed                      1
    ├── UsageError              the request is not valid                2
    │   ├── NoProgram           the job's program does not exist        127
    │   └── CannotRun           it is no program that can be run        126
    ├── Unreachable             no daemon answers                       3
    ├── Refused                 the request is valid but not allowed    1
    ├── BadFile                 a job file or envelope cannot be read   1
    ├── BadConfig               a setting cannot be used                2
    ├── DeviceError             a GPU source cannot answer              1
    └── StoreError              the store or spool cannot be used       1

An error's text names the thing, the cause and the next step, in one line.
"""

from __future__ import annotations


class RadrmError(Exception):
    """The root of every error that a user may see."""

    exit_code = 1

    @property
    def lines(self) -> list[str]:
        """What is printed of it: one line, but for other programs' words."""
        return [str(self)]


class UsageError(RadrmError):
    exit_code = 2


class NoProgram(UsageError):
    exit_code = 127  # as shells do


class CannotRun(UsageError):
    exit_code = 126


class Unreachable(RadrmError):
    exit_code = 3


class Refused(RadrmError):
    pass


class BadFile(RadrmError):
    pass


class BadConfig(RadrmError):
    exit_code = 2


class DeviceError(RadrmError):
    pass


class StoreError(RadrmError):
    pass


_MOST_CHARACTERS = 300
"""The most characters of an exception's message in a line."""

# Exit codes of `submit --wait` and `wait` for a job that has no exit code of its own.
EXIT_TIME_LIMIT = 124
EXIT_NEVER_RAN = 125


def plain(text: str) -> str:
    """Return untrusted text with every unprintable character replaced.

    Such characters could move the cursor, change colours or forge a line.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def shown(text: str) -> str:
    """Return a user's text for an error message: quoted, on one line, shortened."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def message_of(error: BaseException) -> str:
    """Return the message of an exception, whatever its class, as one short line."""
    try:
        words = " ".join(str(error).split())[:_MOST_CHARACTERS]
    except Exception:  # the class can be a third party's
        words = "its message cannot be read"
    return words.encode("utf-8", "backslashreplace").decode()


def one_line(error: BaseException) -> str:
    """Return an exception as one short line: its type, message and line of code."""
    words = message_of(error)
    trace, where = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
        where = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}{f': {words}' if words else ''}{where}"
