"""Which failures lie with the server and may pass: a full disk, no more processes or files.

What they hinder is tried again later. Everything else would fail the same way again.
"""

from __future__ import annotations

import errno

_PASSING = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.ENOMEM,
    }
)


def may_pass(error: BaseException | None) -> bool:
    """True for such a failure, also as the cause of another error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _PASSING:
            return True
        error = error.__cause__
    return False
