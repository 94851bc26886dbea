"""The errors that a user may see, and their exit codes. Each is one line of text.

    RadrmError                  the request failed                      1
    ├── UsageError              the request is not valid                2
    ├── Unreachable             no daemon answers                       3
    ├── Refused                 the request is valid but not allowed    1
    ├── BadFile                 a job file or envelope cannot be read   1
    ├── BadConfig               a setting cannot be used                2
    ├── DeviceError             a GPU source cannot answer              1
    └── StoreError              the store or spool cannot be used       1

An error's text names the thing, the cause and the next step, in one line.
`transient` says whether the same request may succeed later.
"""

from __future__ import annotations


class RadrmError(Exception):
    """The root of every error that a user may see."""

    exit_code = 1
    transient = False


class UsageError(RadrmError):
    exit_code = 2


class Unreachable(RadrmError):
    exit_code = 3
    transient = True


class Refused(RadrmError):
    pass


class BadFile(RadrmError):
    pass


class BadConfig(RadrmError):
    exit_code = 2


class DeviceError(RadrmError):
    transient = True


class StoreError(RadrmError):
    pass


# Exit codes of `submit --wait` and `wait` for a job that has no exit code of its own.
EXIT_TIME_LIMIT = 124
EXIT_NEVER_RAN = 125


def plain(text: str) -> str:
    """Return untrusted text with every unprintable character replaced.

    Such characters could move the cursor, change colours or forge a line.
    """
    return "".join(c if c.isprintable() else "\ufffd" for c in text)
