"""`radrm status`: pages, the card of one job, and what changes as it happens."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

import radrm.cli.commands.status
import radrm.cli.show.follow
from radrm.cli.show.card import card, headline
from radrm.client.awaiting import wait_for
from radrm.client.follow import Patient, changes
from radrm.client.text import FINAL, next_steps
from radrm.core.words import JobState
from radrm.errors import RadrmError, Refused, Unreachable
from tests.cli.fakes import ESC, NOW, Pauses, Script, job, page, shown
from tests.cli.runner import Ran, invoke


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(client: Script, *words: str) -> Ran:
        monkeypatch.setattr(radrm.cli.commands.status, "ReadingClient", lambda: client)
        monkeypatch.setattr(radrm.cli.show.follow, "changes", partial(changes, pause=Pauses()))
        done = invoke("status", *words)
        if done.exception and not isinstance(done.exception, (SystemExit, RadrmError)):
            raise done.exception
        return done

    return run


# ------------------------------------------------------------------ pages


@pytest.mark.parametrize("jobs", [[], [job(1)]])
def test_simulated_gpus_are_named_as_such(run: Any, jobs: list[Any]) -> None:
    answer = {**page(jobs, len(jobs), RUNNING=len(jobs)), "simulated": True}
    assert "2 simulated GPUs" in run(Script(page=[answer])).stdout


def test_a_page_and_the_way_to_the_next(run: Any) -> None:
    client = Script(page=[page([job(i) for i in range(50)], 120, RUNNING=3, PENDING=117)])
    lines = run(client, "--user", "ada lovelace", "--all").stdout.splitlines()
    assert lines[0] == "3 running, 117 pending — 2 GPUs"
    assert lines[1].split()[:2] == ["JOB", "NAME"]
    assert lines[-1] == "... 70 more: radrm status --all --user 'ada lovelace' --page 2"
    (_, words) = client.asked[0]
    assert words == {
        "jobs": [],
        "all": True,
        "user": "ada lovelace",
        "state": None,
        "offset": 0,
        "limit": 50,
    }


def test_later_pages(run: Any) -> None:
    client = Script(page=[page([job(i) for i in range(10)], 25)])
    said = run(
        client, "sweep-*", "--state", "pending,running", "--page", "2", "--limit", "10"
    ).stdout
    assert client.asked[0][1]["offset"] == 10 and client.asked[0][1]["state"] == "pending,running"
    assert said.splitlines()[-1] == (
        "... 5 more: radrm status 'sweep-*' --state pending,running --limit 10 --page 3"
    )
    client = Script(page=[page([], 25)])
    done = run(client, "--page", "9", "--limit", "10")
    assert isinstance(done.exception, Refused) and "no page 9; there are 3" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "No unfinished jobs (--all shows the others)."),
        (["--all"], "No jobs."),
        (["--user", "x"], "No such jobs that have not ended."),
        (["--all", "--state", "failed"], "No job is failed."),
    ],
)
def test_nothing(run: Any, words: list[str], said: str) -> None:
    assert run(Script(page=[page([], 0)]), *words).stdout == f"{said}\n"


def test_programs_get_everything_unless_they_ask_for_a_page(run: Any) -> None:
    documents = [job(i) for i in range(120)]
    client = Script(status=[documents])
    assert json.loads(run(client, "--json").stdout) == documents
    second = json.loads(run(client, "--json", "--page", "2").stdout)
    assert [d["id"] for d in second] == list(range(50, 100))


# ------------------------------------------------------------------ one job


def attempt(number: int, outcome: str | None, **changed: Any) -> dict[str, Any]:
    document = {
        "number": number,
        "outcome": outcome,
        "exit_code": None,
        "reason": None,
        "devices": [0],
        "collocation": "mps",
        "started_at": NOW - 60,
        "ended_at": None if outcome is None else NOW - 30,
        "ran_s": 60.0 if outcome is None else 30.0,
        "reserved_mib": 6144,
        "peak_mib": None,
        "smact": 0.5,
        "energy_j": None,
    }
    return document | changed


def test_one_job_is_a_card(run: Any) -> None:
    it = job(5, "RUNNING", attempts=2, oom_count=1, reserved_mib=8192, peak_mib=7000, energy_j=2000)
    it |= {"time_limit_s": 3600, "comment": "baseline", "priority": 3, "signal": "USR1@60"}
    it |= {"time_limit_at": it["started_at"] + 3600, "moves": 2, "checkpoint_error": "no answer"}
    tries = [attempt(1, "oom", reason="out of memory"), attempt(2, None)]
    client = Script(
        page=[page([it])],
        explain=[{"job": it, "attempts": tries}],
        logs=[{"stdout": "/work/a.out", "stderr": "/work/a.err"}],
    )
    said = run(client, "5").stdout
    for words in (
        "Job 5  resnet50",
        "RUNNING for 1m00s",
        "ran out of GPU memory once, runs again",
        "baseline",
        "1 GPU, time limit 1h00m, priority 3, signal USR1@60",
        "6.0G per GPU (declared)",
        "GPU 0, sharing: mps",
        "reserved 8.0G per GPU, peak use 6.8G",
        "2.0 kJ",
        "(in 59m00s)",
        "/work/a.out",
        "/work/a.err",
        "radrm logs 5 -f",
    ):
        assert words in said, said
    first, second = said.split("ATTEMPT")[1].splitlines()[1:3]
    assert " ".join(first.split()) == "1 oom 0 mps 30s 6.0G - 0.50 - out of memory"
    assert " ".join(second.split()) == "2 running 0 mps 1m00s 8.0G 6.8G 0.50 2.0 kJ"


@pytest.mark.parametrize(
    ("source", "now", "said"),
    [
        ("summary", 18 * 1024, "reserved 18.0G per GPU until its memory settles, peak use 2.0G"),
        ("summary", 3 * 1024, "reserved 3.0G per GPU, peak use 2.0G"),
        ("declared", 18 * 1024, "reserved 18.0G per GPU, peak use 2.0G"),
    ],
)
def test_more_than_an_estimate_is_reserved_for_a_while(
    run: Any, source: str, now: int, said: str
) -> None:
    it = job(5, "RUNNING", reserved_mib=now, peak_mib=2048, estimate_source=source)
    tries = [attempt(1, None, reserved_mib=18 * 1024)]
    logs = [{"stdout": "/work/a.out", "stderr": "/work/a.err"}]
    client = Script(page=[page([it])], explain=[{"job": it, "attempts": tries}], logs=logs)
    assert said in run(client, "5").stdout


def test_a_card_does_without_what_cannot_be_had(run: Any) -> None:
    client = Script(page=[page([job(5)])], explain=[Refused("gone")])
    assert "PENDING for 1m40s" in run(client, "5").stdout


def test_a_card_names_the_estimator_its_bound_and_every_guess() -> None:
    it = job(
        estimate_source="trace",
        estimate_upper_mib=7168,
        estimate_guesses=["batch size: 256, the factory's own default", f"GPUs: 2{ESC}[2J"],
    )
    text = "\n".join(shown(card(it, NOW, {}), 120))
    assert "6.0G per GPU, at most 7.0G (from trace)" in text
    assert "batch size: 256, the factory's own default" in text and "GPUs: 2" in text
    assert text.count("assumed") == 3 and ESC not in text


def test_a_card_shows_what_is_predicted_and_what_was_measured() -> None:
    it = job(
        *(5, "RUNNING"),
        estimate_smact=0.62,
        estimate_smact_upper=0.71,
        estimate_smact_source=f"history, shared runs{ESC}",
        estimate_duration_s=4800.0,
        estimate_duration_upper_s=4800.0,
        estimate_duration_source="declared",
        alone_smact=0.6,
        expected_end_at=NOW + 3600,
        latest_end_at=NOW + 5400,
    )
    text = "\n".join(shown(card(it, NOW, {}, [attempt(1, None, smact=0.55)]), 120))
    assert "SM activity 0.62, at most 0.71 (from history, shared runs" in text
    assert "duration alone 1h20m (declared)" in text
    assert "0.55 measured, 0.60 alone" in text
    assert "(in 1h00m), 1h30m at the latest" in text and ESC not in text


def test_a_card_shows_predictions_that_are_scaled() -> None:
    it = job(
        estimate_smact=0.62,
        estimate_smact_upper=0.71,
        estimate_smact_source="history",
        estimate_smact_on=f"A100{ESC}",
        estimate_smact_scaled=[{"gpu": "H200", "smact": 0.36, "smact_upper": 0.71}],
        cpu_list="0-15",
    )
    lines = shown(card(it, NOW, {}), 120)
    assert "  predicted   SM activity 0.62, at most 0.71 (from history) on A100" in "\n".join(lines)
    scaled = "SM activity 0.36, at most 0.71 (scaled by SMs and clock) on H200"
    assert any(scaled in line for line in lines)
    assert not any(line.strip().startswith("CPUs") for line in lines), "it does not run"
    lines = shown(card(it | job(5, "RUNNING", cpu_list="0-15"), NOW, {"GPU-0": 0}), 120)
    assert "  CPUs        0-15, near its GPUs" in lines


def test_one_row_of_many_elements_is_no_card(run: Any) -> None:
    client = Script(page=[page([job(5, label="5_[0-9]", count=10)])])
    assert "5_[0-9]" in run(client, "5").stdout
    assert client.ops() == ["page"]


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_has_a_card_and_a_next_step(state: JobState) -> None:
    it = job(5, state.value, reason=f"because{ESC}", user=f"x{ESC}")
    lines = shown(card(it, NOW, {}), 60)
    assert all(line.isprintable() for line in lines)
    assert any(state.value in line for line in lines)
    assert next_steps(it)
    assert state.value in headline(it, {}).plain


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, ["logs 5", "requeue 5 --time=LONGER"]),
        ({"saved_work_done": 0.4}, ["logs 5", "requeue 5"]),
        ({"reason": "silent for 1h", "ran_s": 4000.0}, ["logs 5", "requeue 5"]),
    ],
)
def test_a_job_that_runs_again_from_its_start_needs_more_time(
    more: dict[str, Any], told: list[str]
) -> None:
    limit = {"reason": "time limit (2h) reached", "time_limit_s": 7200.0, "ran_s": 7201.0}
    it = job(5, "TIMEOUT", attempts=1) | limit | more
    assert next_steps(it) == [f"radrm {each}" for each in told]


def test_a_job_behind_another_is_told_of_that_one_alone() -> None:
    """Its priority may be limited (`limits.priority_max`)."""
    assert next_steps(job(5, "PENDING", behind="4")) == ["radrm explain 4", "radrm cancel 5"]


def test_a_job_that_never_started_has_no_run_time() -> None:
    assert "before it started" in headline(job(5, "CANCELLED"), {}).plain


# ------------------------------------------------------------------ changes


def told(client: Script, **words: Any) -> list[tuple[int, str]]:
    looks = changes(Patient(client, print), {"jobs": [], **words}, Pauses())
    return [(document["id"], document["state"]) for look in looks for document in look]


def test_each_change_is_told_once_and_the_end_too() -> None:
    ended = {"1": job(1, "COMPLETED"), "2": job(2, "CANCELLED")}

    def answer(words: dict[str, Any]) -> list[dict[str, Any]]:
        if words["jobs"]:
            return [ended[reference] for reference in words["jobs"]]
        return looks.pop(0)

    looks = [
        [job(1), job(2)],
        [job(1), job(2)],
        [job(1, "RUNNING"), job(2)],
        [job(1, "RUNNING"), job(2)],
        [job(2)],
        [],
    ]
    assert told(Script(status=[answer])) == [
        (1, "PENDING"),
        (2, "PENDING"),
        (1, "RUNNING"),
        (1, "COMPLETED"),
        (2, "CANCELLED"),
    ]


def test_another_attempt_is_a_change() -> None:
    first, second = job(1, "RUNNING"), job(1, "RUNNING", attempts=2)
    assert len(told(Script(status=[[first], [second], [job(1, "FAILED")]]))) == 3


def test_nothing_unfinished_ends_it_at_once() -> None:
    client = Script(status=[[job(1, "COMPLETED")]])
    assert told(client, all=True) == [(1, "COMPLETED")]
    assert client.ops() == ["status"]


def test_where_there_is_no_terminal_a_change_is_a_line(run: Any) -> None:
    looks = [[job(1)], [job(1, "RUNNING", devices=["GPU-b"])], [job(1, "COMPLETED")]]
    client = Script(page=[page([job(1)], 2)], status=looks)
    lines = run(client, "--follow").stdout.splitlines()
    assert [line.split()[3] for line in lines] == ["PENDING", "RUNNING", "COMPLETED"]
    assert lines[1].endswith("on GPU 1")


def test_a_long_queue_is_not_listed_before_anything_changes(run: Any) -> None:
    looks = [[job(i) for i in range(70)], [job(i, "COMPLETED") for i in range(70)]]
    lines = run(Script(page=[page([], 70)], status=looks), "--follow").stdout.splitlines()
    assert lines[50] == "... and 20 more; each is shown when it changes"
    assert len(lines) == 50 + 1 + 70


def test_programs_get_a_document_a_line(run: Any) -> None:
    looks = [[job(1)], [job(1, "COMPLETED")]]
    client = Script(page=[page([job(1)], 2)], status=looks)
    lines = run(client, "--follow", "--json").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["PENDING", "COMPLETED"]


def test_one_job_is_followed_with_its_log(run: Any, tmp_path: Any) -> None:
    (tmp_path / "log").write_bytes(b"epoch 1\n")
    place = {"stdout": str(tmp_path / "log"), "stderr": "/nowhere", "live": False}
    ended = job(1, "FAILED", exit_code=3, reason="exit code 3")
    client = Script(page=[page([job(1, "RUNNING")])], status=[[ended]], logs=[place])
    done = run(client, "1", "--follow")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert "Job 1  resnet50  RUNNING for 1m00s on GPU 0" in lines[0]
    assert lines[1:3] == ["epoch 1", "job 1 FAILED: exit code 3"]
    assert "radrm logs 1" in lines[3]


def test_a_followed_job_that_never_starts_is_an_end_and_a_log_that_cannot_be_read_is_not(
    run: Any, tmp_path: Any
) -> None:
    cancelled = job(1, "CANCELLED", reason="cancelled by ada")
    client = Script(page=[page([job(1)])], status=[[cancelled]])
    assert "job 1 CANCELLED: cancelled by ada" in run(client, "1", "--follow").stdout
    place = {"stdout": str(tmp_path), "stderr": "/nowhere", "live": True}
    running = job(1, "RUNNING")
    client = Script(page=[page([running])], status=[[running]], logs=[place])
    done = run(client, "1", "--follow")
    assert isinstance(done.exception, Refused) and "not a regular file" in str(done.exception)


# ------------------------------------------------------------------ waiting


def test_thousands_are_waited_for_without_asking_for_all_of_them_each_time() -> None:
    state = dict.fromkeys(range(3000), "PENDING")
    most = []

    def answer(words: dict[str, Any]) -> list[dict[str, Any]]:
        most.append(len(words["jobs"]))
        return [job(int(i), state[int(i)]) for i in words["jobs"]]

    pauses = Pauses(lambda: None, lambda: state.update(dict.fromkeys(state, "COMPLETED")))
    client = Script(status=[answer])
    ended = wait_for(client, [str(i) for i in state], pauses)
    assert [d["id"] for d in ended] == list(state) and {d["state"] for d in ended} <= FINAL
    assert most[:3] == [1000] * 3 and max(most[3:]) <= 100


def test_what_is_waited_for_is_settled_at_the_beginning_and_once() -> None:
    element = job(12, array_id=12, array_index=0, label="12_0")
    other = job(13, "COMPLETED", label="12_1")

    def answer(words: dict[str, Any]) -> list[dict[str, Any]]:
        if words["jobs"] == ["12", "sweep"]:
            return [element, other, element, other]
        assert words["jobs"] == ["12_0"], "an id would mean the whole array"
        return [element | {"state": "COMPLETED"}]

    ended = wait_for(Script(status=[answer]), ["12", "sweep"], Pauses())
    assert [d["label"] for d in ended] == ["12_0", "12_1"]


def test_a_restart_is_waited_for_and_a_daemon_that_is_not_there_is_not() -> None:
    away = Unreachable("nobody")
    looks = [[job(1)], away, away, [job(1, "COMPLETED")]]
    assert wait_for(Script(status=looks), ["1"], Pauses())[0]["state"] == "COMPLETED"
    with pytest.raises(Unreachable):
        wait_for(Script(status=[away]), ["1"], Pauses())


def test_the_pauses_grow() -> None:
    pauses = Pauses(*[lambda: None] * 20)
    looks = [[job(1)]] * 20 + [[job(1, "COMPLETED")]]
    wait_for(Script(status=looks), ["1"], pauses)
    assert pauses.seconds == sorted(pauses.seconds)
    assert pauses.seconds[0] < 0.1 and pauses.seconds[-1] <= 1.0
