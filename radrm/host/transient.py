"""Which failures the server causes and may pass: a full disk, no more processes or files, a file
server that does not answer.

radrm tries again after such a failure. After any other, a second try would fail alike.
"""

from __future__ import annotations

import errno

_TRANSIENT = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.EMFILE,
        errno.ENFILE,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EREMOTEIO,
    }
)


def is_transient(error: BaseException | None) -> bool:
    """True for a failure of the server, also as the cause of another error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _TRANSIENT:
            return True
        error = error.__cause__
    return False
