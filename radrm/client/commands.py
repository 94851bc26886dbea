"""Commands about many jobs or devices (cancel, hold, drain...), sent to a daemon."""

from __future__ import annotations

from radrm.client.connection import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from radrm.client.text import Document
    from radrm.jobfile.options import RawOptions

_BATCH = 1000
"""References in one request, so that no request is longer than the daemon reads."""
_GLOBS = 100
"""Globs in one request; the daemon takes no more."""


def command_jobs(command: str, jobs: Sequence[str], **words: Any) -> list[Document]:
    """Give a command for each job, or without `jobs` for those that `words` select. Returns the
    results; with `options` and `folders`, with warnings of folders that are not there."""
    with Client() as client:
        results = [
            result
            for batch in (batches(jobs) if jobs else ([],))
            for result in client.ask(command, jobs=batch, **words)
        ]
    return warned(results, words["options"]) if "options" in words else results


def warned(results: list[Document], options: RawOptions) -> list[Document]:
    """Return the results of an edit with `folders`, with warnings of folders that are not there."""
    from radrm.host.mistakes import look_over_edit  # only changed options need it
    from radrm.jobfile.parsing import typed

    asked = typed(options, "edited options")
    notes: dict[str, list[str]] = {}
    for result in results:
        folder = result.pop("folder", None)
        if folder is not None:
            if folder not in notes:
                notes[folder] = look_over_edit(asked, folder)
            words = [result.get("warning"), *notes[folder]]
            if any(words):
                result["warning"] = "; ".join(filter(None, words))
    return results


def command_devices(command: str, devices: Sequence[str], **words: Any) -> list[Document]:
    """Give a command for each device; no name means all. Returns the results."""
    with Client() as client:
        results: list[Document] = client.ask(command, devices=list(devices), **words)
    return results


def batches(jobs: Sequence[str]) -> Iterator[list[str]]:
    """Split references into requests of a size that the daemon takes."""
    batch: list[str] = []
    globs = 0
    for job in jobs:
        glob = any(character in job for character in "*?[")
        if len(batch) == _BATCH or (glob and globs == _GLOBS):
            yield batch
            batch, globs = [], 0
        batch.append(job)
        globs += glob
    if batch:
        yield batch
