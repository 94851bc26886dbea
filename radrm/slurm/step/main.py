"""`radrm slurm-step`: the batch step of a Slurm job. It submits the job, waits, and runs it.

Theory of operation. Slurm has chosen this node, and started the step there as the job's user. The
daemon of the node decides when and on which GPU the job runs, as for all its jobs; the step runs
each attempt, as its parent. So the processes are in Slurm's step: its limits, its accounting and
its signals hold for them. After an out-of-memory death, or another retry, the step stays and runs
the next attempt.

    ask until the daemon vouches for the step, then put the envelope into its spool
    wait: for a WAKE of the daemon, or a few seconds; then ask again
    an attempt is there: run it, say its last word, ask again
    the job has ended: exit as it did

The daemon may be down at any moment: then the step waits for it. What has happened meanwhile lies
in the attempt's folder. Slurm's TERM reaches the job's processes at the same moment, so nothing is
to be hurried; but the step must outlive them, since slurmstepd ends its work when the step ends.

Slurm's controller may be away, too: what the step has to know or to say of the job waits for it.

A job that waits longer than `slurm.local_wait_s` goes back to Slurm, at most three times.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from radrm.client.awaiting import exit_code
from radrm.client.connection import Client
from radrm.client.text import FINAL
from radrm.config import SlurmConfig
from radrm.core.units import show_seconds
from radrm.errors import EXIT_NEVER_RAN, RadrmError, Refused, Unreachable, plain
from radrm.host.attempts import folder as attempts
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.submission import envelope_of, load
from radrm.host.wall import wall_s
from radrm.jobfile.options import RawOptions
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.slurm import comment
from radrm.slurm.asking import run as run_slurm
from radrm.slurm.jobs import gpumem_in
from radrm.slurm.outer import SlurmJob, moment, shown, this_job
from radrm.slurm.setup import cluster_config, daemon_paths
from radrm.slurm.step import attempt
from radrm.slurm.step.attempt import Fence, Gone
from radrm.slurm.step.returning import give_back, patiently
from radrm.slurm.submitting import is_gpumem_asked, unwrap
from radrm.structs import replace

# ------------------------------------------------------------------
# The job of a step: from the Slurm job and its script to an envelope.


def make_envelope(job: SlurmJob, file: str, arguments: Sequence[str]) -> tuple[JobFile, Envelope]:
    """The job of a step, and its envelope. Raises `RadrmError`."""
    script = load(file).decode("utf-8", "surrogateescape")
    text, typed = unwrap(script)
    raw: RawOptions = {**_of_slurm(job), **typed}
    data = text.encode("utf-8", "surrogateescape")
    job_file = read_job_file(data, job.name or "job", raw, arguments=arguments)
    need_mib = needed_mib(job, job_file) if is_gpumem_asked(script) else None
    if need_mib is not None:
        raw["gpu-memory"] = f"{need_mib}M"
        job_file = read_job_file(data, job.name or "job", raw, arguments=arguments)
    envelope = envelope_of(job_file, None, data, raw)
    return job_file, Envelope(**{**envelope.as_dict(), "outer": job.fields})


def needed_mib(job: SlurmJob, job_file: JobFile) -> int | None:
    """Return the need of each GPU, in MiB, of a job that declares none, from what its user has
    asked of Slurm for all its GPUs; None: nothing follows from that."""
    options = job_file.options
    if "gpu-memory" in job_file.raw or options.role or not options.least_gpus:
        return None
    return (job.gpumem_mib or 0) // options.least_gpus or None


def _of_slurm(job: SlurmJob) -> RawOptions:
    """The options that follow from the Slurm job: its name, and its logs."""
    found: dict[str, Any] = {"name": job.name} if job.name else {}
    for option, fd in (("output", 1), ("error", 2)):
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.startswith("/") and os.path.exists(path):
            found[option] = path.replace("%", "%%")
    return found


_FIRST_ASK_S, _ASK_S, _DOWN_S = 0.02, 5.0, 1.0
"""Between two questions: at first, while the daemon is to wake the step, and while it is down."""
_ANSWER_S = 20.0
_LAST_WORD_S = 25.0
"""How long a step that has gone back to Slurm waits for its TERM."""
_COMMENT_S = 60.0
_SLURM_S, _WHY_S = 5.0, 2.0
_MOST_REFUSED = 120
"""Refusals one after the other, some ten minutes, after which the step gives up."""
_USE_S = 60.0
"""How long the step waits with the use of its job for a controller that is away."""


def main(file: str, arguments: Sequence[str] = ()) -> int:
    """Run the batch step of a job file (`-`: standard input). Returns the job's exit code, or ends
    by its signal.

    `arguments` are for the script in the file. Raises `RadrmError` for what keeps the job from
    being submitted.
    """
    attempt.block()
    job = this_job(os.environ)
    config = cluster_config(os.environ).slurm
    for fd in (1, 2):
        _append(fd)
    found = patiently(lambda: shown(job.named), config.local_wait_s, say)
    job = replace(
        job,
        name=job.name or found.get("JobName", ""),
        end_s=moment(found.get("EndTime", "")),
        comment=found.get("Comment", ""),
        gpumem_mib=gpumem_in(found.get("TresPerNode", ""), config.gres),
        requeue=found.get("Requeue") != "0",
    )
    job_file, envelope = make_envelope(job, file, arguments)
    limit_s = job_file.options.time_s
    left_s = None if job.end_s is None else job.end_s - wall_s()
    if limit_s is not None and left_s is not None and limit_s > left_s:
        raise Refused(
            f"the job's time limit is {show_seconds(limit_s)}, and Slurm job {job.named} ends in "
            f"{show_seconds(max(0.0, left_s))}; ask Slurm for more time (-t), or lower --time"
        )
    with Client(daemon_paths(config, os.environ, os.getuid()), _ANSWER_S) as client:
        step = Step(job, config, client, envelope, _latest_wait_s(config, limit_s, left_s))
        return step.run()


def _latest_wait_s(config: SlurmConfig, limit_s: float | None, left_s: float | None) -> float:
    """How long the job may wait here: then it could not end in time any more."""
    if limit_s is None or left_s is None:
        return config.local_wait_s
    return min(config.local_wait_s, left_s - limit_s)


def _append(fd: int) -> None:
    """Let what the step prints stand behind what the job has printed to the same file."""
    import fcntl

    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)


def say(text: str) -> None:
    """Print a line into the job's log."""
    print(f"radrm: {plain(text)}", file=sys.stderr, flush=True)


class Step:
    """One batch step, from its first question to the job's end."""

    def __init__(
        self,
        job: SlurmJob,
        config: SlurmConfig,
        client: Client,
        envelope: Envelope,
        wait_s: float,
    ) -> None:
        self._job, self._config, self._client, self._envelope = job, config, client, envelope
        self._began_s = time.monotonic()
        self._waits_until_s = self._began_s + wait_s
        self._returned = comment.returned(job.comment)
        self._gone: Gone | None = None
        self._submitted = self._silent = False
        self._refused = 0
        self._served = 0
        """The serial of the last attempt that was run here."""
        self._commented_s = float("-inf")
        self._comment = ""
        self._fence = Fence() if config.fence else None

    def run(self) -> int:
        """Serve the job until it has ended. Returns its exit code, or ends by its signal."""
        pause_s = _FIRST_ASK_S
        while True:
            answer = self._ask()
            if answer is not None and answer["vouched"] and not self._submitted:
                Spool(self._spool).put([self._envelope])
                self._submitted, pause_s = True, _FIRST_ASK_S
                continue
            if answer is not None and answer.get("earlier"):
                raise self._refused_twice(answer["earlier"])
            document = answer.get("job") if answer is not None else None
            if answer is not None and document is not None:
                if document["state"] in FINAL:
                    return self._end(document, answer.get("use") or {})
                if answer.get("folder") and answer["serial"] != self._served:
                    self._run_attempt(answer["folder"], answer["serial"])
                    pause_s = _FIRST_ASK_S
                    continue
                self._note_waiting(document)
            if self._gone is not None and (answer is None or not self._submitted):
                return 128 + int(signal.SIGTERM)
            if time.monotonic() > self._waits_until_s and self._served == 0:
                code = self._return(document)
                if code is not None:
                    return code
            until_s = self._waits_until_s - time.monotonic()
            self._obey(attempt.wait(min(pause_s, until_s) if until_s > 0 else pause_s))
            pause_s = min(_DOWN_S if self._silent else _ASK_S, 2 * pause_s)

    # ------------------------------------------------------------- the daemon

    def _ask(self) -> dict[str, Any] | None:
        """Ask the daemon; None while it does not answer. Raises `Refused`."""
        words = self._job.fields
        if self._submitted:
            words["ticket"] = self._envelope.ticket
        if self._gone is not None:
            gone = self._gone
            words |= {"gone": gone.reason, "why": gone.why, "since_s": gone.since["boot_s"]}
        try:
            answer: dict[str, Any] = self._client.ask("step", **words)
        except Unreachable as error:
            self._note_silent(f"does not answer, waiting: {error}")
            return None
        except Refused as error:
            # While slurmd is down, a new daemon is not told that this is a step. What runs, or has
            # run meanwhile, must not be lost by that.
            self._refused += 1
            if not self._submitted or self._refused > _MOST_REFUSED:
                raise
            self._note_silent(f"refuses this step, which asks again: {error}")
            return None
        finally:
            self._client.close()  # a daemon has few connections for each user
        if self._silent:
            say("the daemon answers again")
        self._silent, self._refused = False, 0
        return answer

    def _refused_twice(self, earlier: str) -> Refused:
        return Refused(
            f"Slurm job {self._job.named} has had a job here already, {earlier}, and has one only; "
            "submit this one by itself: sbatch, or radrm submit --cluster"
        )

    def _note_silent(self, what: str) -> None:
        if not self._silent:
            say(f"the daemon of node {self._job.node} {what}")
        self._silent = True

    @property
    def _spool(self) -> str:
        assert self._client.paths is not None
        return self._client.paths.spool

    # ------------------------------------------------------------- an attempt

    def _run_attempt(self, folder: str, serial: int) -> None:
        """Run an attempt to its end, and say its last word."""
        self._served = serial
        try:
            runner = attempt.start(folder)
        except Refused as error:
            say(str(error))
            attempt.close(folder, None)
            return
        self._ask()  # so that the daemon learns at once that the job has begun
        told = False
        while not runner.has_ended:
            if self._gone is not None and not told:
                told = True
                self._ask()  # first, so that the end has its reason
                runner.send(signal.SIGTERM)
            self._obey(attempt.wait(self._until_fence_s()), runner)
        self._obey(attempt.wait(0.0))  # Slurm's TERM goes to the job and to us, in any order
        attempt.close(folder, self._gone)

    def _obey(self, number: int | None, runner: attempt.Runner | None = None) -> None:
        """Note or pass on a signal."""
        if number in attempt.ENDING:
            self._gone = self._gone or why_ending(self._job)
        elif number in attempt.PASSED_ON and number is not None and runner is not None:
            runner.pass_on(number)
        if self._fence is not None and self._gone is None:
            self._gone = self._fence.look(time.monotonic())

    def _until_fence_s(self) -> float:
        return 3600.0 if self._fence is None else self._fence.every_s

    # ------------------------------------------------------------- waiting

    def _note_waiting(self, document: Mapping[str, Any]) -> None:
        """Write why the job waits into the comment of its Slurm job, at most once a minute."""
        now_s, why = time.monotonic(), document["reason"] or "for its turn"
        text = comment.waiting(why, self._returned)
        if document["started_at"] is None and self._commented_s == float("-inf"):
            self._commented_s = now_s - _COMMENT_S + 1  # most jobs start within a second
        if text != self._comment and now_s - self._commented_s >= _COMMENT_S:
            self._write_comment(text, 0.0)

    def _write_comment(self, text: str, patience_s: float) -> None:
        self._comment, self._commented_s = text, time.monotonic()
        words = f"JobId={self._job.named}", f"Comment={text}"

        def write() -> str:
            return run_slurm("scontrol", "update", *words, timeout_s=_SLURM_S)

        try:
            patiently(write, patience_s, say)
        except RadrmError as error:
            say(f"Slurm does not take the comment: {error}")

    def _return(self, document: Mapping[str, Any] | None) -> int | None:
        """Give the job back to Slurm, for another node. Returns the exit code, None if it runs."""
        waited = show_seconds(time.monotonic() - self._began_s)
        why = "the daemon does not answer" if self._silent else (document or {}).get("reason")
        text = f"it waited {waited} on node {self._job.node}: {why or 'for its turn'}"
        if self._submitted and not self._withdraw(text):
            return None
        if not self._job.requeue:
            say(f"{text}; it has --no-requeue, so it fails and does not go to another node")
            return EXIT_NEVER_RAN
        if self._returned >= comment.MOST_RETURNS:
            say(f"{text}; it was returned to Slurm {self._returned} times already, and fails")
            return EXIT_NEVER_RAN
        say(f"{text}; it goes back to Slurm, for another node")
        marked = comment.waiting(text, self._returned + 1)

        def back() -> None:
            give_back(self._job, self._config, marked)

        try:
            patiently(back, self._config.local_wait_s, say)
        except RadrmError as error:
            say(f"Slurm does not take it back: {error}")
            return EXIT_NEVER_RAN
        while attempt.wait(_LAST_WORD_S) not in (*attempt.ENDING, None):
            pass
        return EXIT_NEVER_RAN

    def _withdraw(self, why: str) -> bool:
        """End the waiting job of the daemon; False if it runs now."""
        self._gone, answer = Gone("returned", why), None
        try:
            answer = self._ask()
        finally:
            self._gone = None
        document = answer.get("job") if answer is not None else None
        return document is None or document["state"] in FINAL

    # ------------------------------------------------------------- the end

    def _end(self, document: Mapping[str, Any], use: Mapping[str, Any]) -> int:
        """Say how the job has ended. Returns its exit code, or ends by its signal."""
        if use and self._gone is None:  # Slurm takes none of a job that it has ended
            self._write_comment(comment.Use(**use).text(), _USE_S)
        code = exit_code(dict(document))
        of_signal = document["outcome"] == "failed" and code > 128
        if document["state"] != "COMPLETED" and not _plain_end(document):
            why = f": {document['reason']}" if document["reason"] else ""
            say(f"{document['state']}{why}")
        if of_signal:
            attempt.die_of(code - 128)
        return code


def _plain_end(document: Mapping[str, Any]) -> bool:
    """Return whether the job has just exited with a code, which Slurm shows."""
    return document["outcome"] == "failed" and str(document["reason"]).startswith("exit code")


def why_ending(job: SlurmJob) -> Gone:
    """Why Slurm ends a job that has got TERM just now."""
    since = attempts.now()
    try:
        found = shown(job.named, _WHY_S)
    except RadrmError:
        found = {}
    if found.get("Reason") == "TimeLimit":
        return Gone("timeout", f"Slurm job {job.named} has reached its time limit", since)
    if found.get("Restarts", str(job.restart)) != str(job.restart):
        why = f"Slurm runs job {job.named} again later: it was preempted or requeued"
        return Gone("preempted", why, since)
    return Gone("cancelled", f"Slurm has cancelled job {job.named}", since)
