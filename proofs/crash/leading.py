"""What leads to a fault point: the job that crosses it, and the kill that must come before."""

from __future__ import annotations

_JOBS = {
    "resize withdrawn": "spoiled",
    "Resize": "elastic",
    "resize": "elastic",
    "placement": "elastic",
    "radrun's": "elastic",
    "SendSignal": "limit",
    "job killed": "stubborn",
    "Kill": "stubborn",
    "stop begun": "stay",
    "Terminate": "stay",
    "TakeCheckpoint": "saves",
    "EstimateJob": "summary",
    "job limited": "limited",
    "log watcher": "progress",
}
"""The kind of job that crosses points with these words."""
_AT_A_START = (
    "records restored",
    "attempts adopted",
    "attempt adopted",
    "left folders",
    "radrm-home.json",
    "claim made daemon",
    "claim written daemon",
    "no start record",
)
_AFTER_A_DEAD_RUNNER = ("runner found dead", "remains killed", "adopted Lost")
_AFTER_A_LAUNCH_CUT_OFF = ("claim made daemon", "claim written daemon", "adopted Void")
_WHILE_A_RUNNER_BEGINS = ("no start record",)
_OF_SETTINGS = {"Think": "andreas", "ApplyShares": "flowcon"}


def job_for(point: str) -> str | None:
    """The kind of job that leads to a point; None: any."""
    return next((kind for words, kind in _JOBS.items() if words in point), None)


def is_at_a_start(point: str) -> bool:
    """True for a point that a daemon crosses while it starts."""
    return any(words in point for words in _AT_A_START)


def needs_dead_runner(point: str) -> bool:
    """True for a point that is crossed once a runner was killed."""
    return any(words in point for words in _AFTER_A_DEAD_RUNNER)


def races_a_runner(point: str) -> bool:
    """True for a point at which a starting daemon looks at a runner that begins."""
    return any(words in point for words in _WHILE_A_RUNNER_BEGINS)


def needs_cut_launch(point: str) -> bool:
    """True for a point that is crossed after a daemon was killed before its runner started."""
    return any(words in point for words in _AFTER_A_LAUNCH_CUT_OFF)


def fits(point: str, settings: tuple[str, ...]) -> bool:
    """False for a point that no daemon with these settings crosses."""
    wanted = next((rule for words, rule in _OF_SETTINGS.items() if words in point), "")
    return any(wanted in setting for setting in settings) or not wanted
