"""`radrm slurm-step`: the batch step of a Slurm job. It submits the job, waits, and runs it.

Theory of operation. Slurm has chosen this node, and started the step there as the job's user. The
daemon of the node decides when and on which GPU the job runs, as for all its jobs; the step runs
each attempt, as its parent. So the processes are in Slurm's step: its limits, its accounting and
its signals hold for them. After an out-of-memory death, or another retry, the step stays and runs
the next attempt.

    ask until the daemon vouches for the step and says what Slurm says of its job
    put the envelope into the daemon's spool
    wait: for a WAKE of the daemon, or a few seconds; then ask again
    Slurm suspends the job: the daemon holds it, until Slurm resumes it
    an attempt is there: run it, say its last word, ask again
    the job has ended: exit as it did

The daemon may be down at any moment: then the step waits for it, a minute if nothing of the job has
run. What has happened meanwhile lies in the attempt's folder. Slurm's TERM reaches the job's
processes at the same moment, so nothing is to be hurried; but the step must outlive them, since
slurmstepd ends its work when the step ends.

The step asks Slurm nothing while all is well: the daemon does, once for each job (`telling.py`).
What keeps a job from running here is a `Fault`; `returning.py` says what follows.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from importlib import import_module

from radrm.client.connection import Client
from radrm.client.text import FINAL
from radrm.core.units import show_seconds
from radrm.errors import EXIT_NEVER_RAN, RadrmError, Refused, Unreachable, plain
from radrm.host.attempts import folder as attempts
from radrm.slurm import comment
from radrm.slurm.asking import run as run_slurm
from radrm.slurm.outer import cluster_config, daemon_home, daemon_paths, shown, this_job
from radrm.slurm.step import attempt
from radrm.slurm.step.attempt import Gone
from radrm.slurm.step.returning import Fault, Whose, fault_of, give_back, is_free, patiently

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from radrm.host.storage.spool import Envelope
    from radrm.slurm.outer import SlurmJob


_FIRST_ASK_S, _ASK_S, _DOWN_S = 0.1, 5.0, 1.0
"""Between two questions: at first, while the daemon is to wake the step, and while it is down."""
_ANSWER_S = 20.0
_SLURM_S = 5.0
_WHY_S = 15.0
"""How long Slurm is asked why a job ends: a busy controller takes seconds. KILL comes after
`KillWait` (30 s)."""
_SAID_S, _DEAD_S = 5.0, 60.0
"""After so long a daemon that does not answer is shown in the job's comment, and is given up: a
restart takes less."""
_PATIENCE_S = 1800.0
"""How long a job waits on a node, until the daemon says `slurm.local_wait_s`."""
_MOST_REFUSED = 120
"""Refusals one after the other, some ten minutes, after which the step gives up."""
_USE_S = 60.0
"""How long the step waits with the use of its job for a controller that is away."""
_LATE_S = 3.0
"""How long after TERM to the job's processes the step's own may come: Slurm sends them one after
the other, in any order."""
_UNHEARD_S = 5.0
"""Between two tries to tell the daemon that the job has begun."""


def main(file: str, arguments: Sequence[str] = ()) -> int:
    """Run the batch step of a job file (`-`: standard input). Returns the job's exit code, or ends
    by its signal.

    `arguments` are for the script in the file. Raises `RadrmError` for what keeps the job from
    being submitted, and is the job's own fault.
    """
    attempt.block()
    job, step = this_job(os.environ), None
    for fd in (1, 2):
        _append(fd)
    try:
        paths = daemon_paths(daemon_home(os.environ), os.environ, os.getuid())
        with Client(paths, _ANSWER_S) as client:
            step = Step(job, client, lambda told: _envelope(job, file, arguments, told))
            return step.run()
    except Exception as error:
        if step is not None and step.has_run:
            raise
        give_back(job, _gres(), fault_of(error), say)
        return EXIT_NEVER_RAN


def _envelope(
    job: SlurmJob, file: str, arguments: Sequence[str], told: Mapping[str, Any]
) -> Envelope:
    from radrm.slurm.step.envelope import make_envelope

    return make_envelope(job, file, arguments, told)


def _prepare() -> None:
    """Import the rest. Meanwhile the daemon asks Slurm, so the job's start pays nothing for it."""
    import_module("radrm.slurm.step.envelope")
    attempt.prepare()


def _gres() -> str:
    """The name of the counted GRES; the usual one where the configuration cannot be read."""
    try:
        return cluster_config(os.environ).slurm.gres
    except (RadrmError, OSError):
        return "gpumem"


def _append(fd: int) -> None:
    """Let what the step prints stand behind what the job has printed to the same file."""
    import fcntl

    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)


def say(text: str) -> None:
    """Print a line into the job's log."""
    print(f"radrm: {plain('; '.join(text.splitlines()))}", file=sys.stderr, flush=True)


class Step:
    """One batch step, from its first question to the job's end.

    `make` makes the envelope of the job from what the daemon says that Slurm says of it.
    """

    def __init__(
        self,
        job: SlurmJob,
        client: Client,
        make: Callable[[Mapping[str, Any]], Envelope],
    ) -> None:
        self._job, self._client, self._make = job, client, make
        self._began_s = time.monotonic()
        self._patience_s = _PATIENCE_S
        self._returned = 0
        self._gone: Gone | None = None
        self._envelope: Envelope | None = None
        """What was submitted; None: nothing yet."""
        self._silent_s: float | None = None
        """Since when the daemon does not answer; None: it does."""
        self._shown = False
        """Whether the comment of the job says so."""
        self._refused = 0
        self._suspended_s: float | None = None
        """Since when Slurm suspends the job, which gets no GPU meanwhile; None: it does not."""
        self._resumed = False
        """Whether the daemon is to hear that it does not any more."""
        self._served = 0
        """The serial of the last attempt that was run here."""
        self._ended_s: float | None = None
        """When the job ended; from then on Slurm gets the figures of its use."""
        self._fence_s: float | None = None
        """After how many seconds a fenced job asks again whether the controller is silent."""

    @property
    def has_run(self) -> bool:
        """Whether an attempt of the job was run: then it never goes back."""
        return self._served > 0

    def run(self) -> int:
        """Serve the job until it has ended. Returns its exit code, or ends by its signal.

        Raises `Fault` if it cannot run here.
        """
        pause_s = _FIRST_ASK_S
        while True:
            answer = self._ask()
            if answer is not None and answer.get("earlier"):
                raise self._refused_twice(answer["earlier"])
            if answer is not None and answer.get("fault"):
                raise Fault(Whose(answer["fault"]), answer["why"])
            if self._envelope is None and answer is not None and answer.get("slurm"):
                self._submit(answer["slurm"])
                pause_s = _FIRST_ASK_S
                continue
            document = answer.get("job") if answer is not None else None
            if answer is not None and document is not None:
                if document["state"] in FINAL and not self._waits_for_slurm(answer):
                    return self._end(document)
                if answer.get("folder") and answer["serial"] != self._served:
                    self._run_attempt(answer["folder"], answer["serial"])
                    pause_s = _FIRST_ASK_S
                    continue
            if self._gone is not None and (answer is None or self._envelope is None):
                return 128 + int(signal.SIGTERM)
            if self._envelope is None:
                _prepare()
            until_s = self._look_at_the_wait(document)
            self._obey(attempt.wait(min(pause_s, until_s)))
            pause_s = min(_ASK_S if self._silent_s is None else _DOWN_S, 2 * pause_s)

    def _submit(self, told: Mapping[str, Any]) -> None:
        from radrm.host.storage.spool import Spool

        self._returned = told.get("returned") or 0
        envelope = self._make(told)
        assert self._client.paths is not None
        Spool(self._client.paths.spool).put([envelope])
        self._envelope = envelope

    # ------------------------------------------------------------- the daemon

    def _ask(self) -> dict[str, Any] | None:
        """Ask the daemon; None while it does not answer. Raises `Refused`."""
        words = {**self._job.fields, "named": self._job.named}
        if self._envelope is not None:
            words["ticket"] = self._envelope.ticket
        if self._suspended_s is not None or self._resumed:
            words["suspended"] = self._suspended_s is not None
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
            if self._envelope is None or self._refused > _MOST_REFUSED:
                raise
            self._note_silent(f"refuses this step, which asks again: {error}")
            return None
        finally:
            self._client.close()  # a daemon has few connections for each user
        if self._silent_s is not None:
            say("the daemon answers again")
            if self._shown:
                self._show("")
        self._silent_s, self._refused, self._resumed = None, 0, False
        self._patience_s = answer.get("patience_s", self._patience_s)
        self._fence_s = answer.get("every_s", self._fence_s)
        return answer

    def _refused_twice(self, earlier: str) -> Fault:
        return Fault(
            Whose.JOB,
            f"Slurm job {self._job.named} has had a job here already, {earlier}, and has one only; "
            "submit this one by itself: sbatch, or radrm submit --cluster",
        )

    def _note_silent(self, what: str) -> None:
        if self._silent_s is None:
            say(f"the daemon of node {self._job.node} {what}")
            self._silent_s = time.monotonic()
        elif not self._shown and time.monotonic() - self._silent_s > _SAID_S and not self.has_run:
            self._shown = True
            why = f"the daemon of node {self._job.node} does not answer"
            self._show(comment.waiting(why, self._returned))

    def _show(self, text: str) -> None:
        """Write the comment of the job, in place of the daemon, if its user has written none."""
        named = self._job.named
        try:
            if is_free(shown(named, _SLURM_S)):
                words = f"JobId={named}", f"Comment={text}"
                run_slurm("scontrol", "update", *words, timeout_s=_SLURM_S)
        except RadrmError as error:
            say(f"Slurm does not take the comment: {error}")

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
        heard = self._ask()  # so that the daemon learns at once that the job has begun
        told = False
        while not runner.has_ended:
            if self._gone is not None and not told:
                told = True
                self._ask()  # first, so that the end has its reason
                runner.send(signal.SIGTERM)
            pause_s = self._fence_s or 3600.0
            number = attempt.wait(pause_s if heard is not None else min(pause_s, _UNHEARD_S))
            self._obey(number, runner)
            if number is None and self._gone is None:
                heard = self._ask()
                if heard and heard.get("silent"):  # Slurm may start the job on another node
                    self._gone = Gone("cancelled", heard["silent"], attempts.now())
        self._obey_late(_LATE_S if attempt.was_terminated(folder) else 0.0)
        attempt.close(folder, self._gone)

    def _obey_late(self, seconds: float) -> None:
        """Note a TERM that comes within this time."""
        last_s = time.monotonic() + seconds
        while self._gone is None:
            number = attempt.wait(last_s - time.monotonic())
            if number is None:
                return
            self._obey(number)

    def _obey(self, number: int | None, runner: attempt.Runner | None = None) -> None:
        """Note or pass on a signal."""
        if number in attempt.ENDING:
            self._gone = self._gone or why_ending(self._job)
        elif number in attempt.PASSED_ON and number is not None and runner is not None:
            runner.pass_on(number)
        elif number == signal.SIGTSTP and runner is None:
            self._suspended_s = self._suspended_s or time.monotonic()
        elif number == signal.SIGCONT and self._suspended_s is not None:
            self._began_s += time.monotonic() - self._suspended_s
            self._suspended_s, self._resumed = None, True

    # ------------------------------------------------------------- waiting

    def _look_at_the_wait(self, document: Mapping[str, Any] | None) -> float:
        """Return the seconds until a job that waits goes back. Raises `Fault` if that is now."""
        if self.has_run or self._gone is not None:
            return _ASK_S
        now_s, node = time.monotonic(), self._job.node
        if self._silent_s is not None and now_s - self._silent_s >= _DEAD_S:
            raise Fault(Whose.NODE, f"its daemon has not answered for {show_seconds(_DEAD_S)}")
        left_s = self._began_s + self._patience_s - now_s
        if left_s <= 0:
            why = (document or {}).get("reason") or "for its turn"
            text = f"it has waited {show_seconds(now_s - self._began_s)}: {why}"
            if self._envelope is None or self._withdraw(f"it waited on node {node}: {why}"):
                raise Fault(Whose.WAIT, text, self._returned)
        return max(left_s, _FIRST_ASK_S)

    def _withdraw(self, why: str) -> bool:
        """End the waiting job of the daemon; False if it runs now."""
        self._gone, answer = Gone("returned", why, attempts.now()), None
        try:
            answer = self._ask()
        finally:
            self._gone = None
        document = answer.get("job") if answer is not None else None
        return document is None or document["state"] in FINAL

    # ------------------------------------------------------------- the end

    def _waits_for_slurm(self, answer: Mapping[str, Any]) -> bool:
        """Whether the daemon still tells Slurm what the job has used: Slurm takes it before the
        job's end only."""
        if not answer.get("telling") or self._gone is not None:
            return False
        if self._ended_s is None:
            self._ended_s = time.monotonic()
        return time.monotonic() - self._ended_s < _USE_S

    def _end(self, document: Mapping[str, Any]) -> int:
        """Say how the job has ended. Returns its exit code, or ends by its signal."""
        from radrm.client.awaiting import exit_code

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
    """Why Slurm ends a job whose step has got TERM just now: since when is not known better, and a
    job that has ended by its own TERM must not have ended before."""
    since = attempts.now()
    since |= {name: since[name] - _LATE_S for name in ("boot_s", "wall_s")}
    try:
        found = patiently(lambda: shown(job.named, _WHY_S), _WHY_S, say)
    except RadrmError:
        return Gone("cancelled", f"Slurm has ended job {job.named}, and did not say why", since)
    if found.get("Reason") == "TimeLimit":
        return Gone("timeout", f"Slurm job {job.named} has reached its time limit", since)
    if found.get("Restarts", str(job.restart)) != str(job.restart):
        why = f"Slurm runs job {job.named} again later: it was preempted or requeued"
        return Gone("preempted", why, since)
    return Gone("cancelled", f"Slurm has cancelled job {job.named}", since)
