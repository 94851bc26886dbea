"""`sbcast`: a file for all nodes of a job. There is one, so it is copied. Source: sbcast(1)."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from radrm.errors import Refused, UsageError
from radrm.slurm.commands.names import read_words

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHORT = {"f": "force", "p": "preserve", "v": "verbose", "C": "compress", "F": "fanout",
          "j": "jobid", "s": "size", "t": "timeout", "Z": "treewidth", "V": "version"}  # fmt: skip
_FLAGS = ("force", "preserve", "verbose", "compress", "send-libs", "no-allocation")


def sbcast(words: Sequence[str]) -> int:
    """Copy a file. Raises `RadrmError`."""
    options, rest = read_words(words, _SHORT, _FLAGS)
    if len(rest) != 2:
        raise UsageError("sbcast needs two files, as: sbcast data.tar /tmp/data.tar")
    source, target = rest
    given = dict(options)
    if os.path.isdir(target) or target.endswith("/"):
        target = os.path.join(target, os.path.basename(source))
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if "force" in given else os.O_EXCL)
    try:
        with open(source, "rb") as read:
            mode = os.fstat(read.fileno()).st_mode & 0o777
            with open(os.open(target, flags, mode), "wb") as write:
                shutil.copyfileobj(read, write, 1 << 20)
            if "preserve" in given and os.path.isfile(target):  # not /dev/null
                shutil.copystat(source, target)
    except FileExistsError:
        raise Refused(f"sbcast: {target} exists; overwrite it by --force") from None
    except OSError as error:
        raise Refused(f"sbcast: {error.filename!s}: {error.strerror}") from None
    return 0
