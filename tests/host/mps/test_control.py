"""One MPS control daemon: the commands, and what its processes leave.

`nvidia-cuda-mps-control` is the stand-in of tests/standins/bin, a process as the real one is.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.host.mps import control
from radrm.host.mps.control import UNKNOWN, Control, Missing, NoAnswer
from radrm.host.processes.identity import alive
from tests.host.mps.controls import Place, end
from tests.waiting import wait_until


def test_it_starts_answers_and_ends(place: Place) -> None:
    control = place.control()
    assert control.process() is None
    who = control.start()
    assert control.process() == who
    assert control.probe() == ()
    client, _ = place.client(control)
    (server,) = control.probe()
    assert (server.status, server.clients) == ("ACTIVE", (client,))
    place.children[0].kill()
    wait_until(lambda: control.probe()[0].clients == ())
    control.quit()
    wait_until(lambda: not alive(who))
    assert control.process() is None


def test_a_dead_ones_leftovers_are_removed_and_its_log_is_kept(place: Place) -> None:
    control = place.control()
    first = control.start()
    end(control)
    assert "control" in os.listdir(control.pipes), "a stale socket"
    second = control.start()
    assert second != first
    log = Path(control.logs, "control.log").read_text()
    assert log.count("start, devices") == 2


@pytest.mark.parametrize("pid", ["", "x", "1", "0", "-1", "99999999999999999999", "{me}"])
def test_a_pid_file_that_names_another_process_proves_nothing(place: Place, pid: str) -> None:
    control = place.control()
    Path(control.pipes).mkdir()
    Path(control.pipes, "nvidia-cuda-mps-control.pid").write_text(pid.format(me=os.getpid()))
    assert control.process() is None


def test_one_that_does_not_start_says_why(place: Place) -> None:
    place.wrong(refuse="Failed to initialize: insufficient permissions\nmore")
    with pytest.raises(NoAnswer, match=r"did not start: Failed .* permissions; see .*\.log"):
        place.control().start()


def test_where_the_program_is_missing(tmp_path: Path) -> None:
    control = Control(str(tmp_path / "m"), str(tmp_path / "l"), program="no-such-program")
    with pytest.raises(Missing, match="no-such-program is not on PATH; install"):
        control.start()


def test_a_path_that_no_socket_fits_in_is_refused_before_anything_is_started(place: Place) -> None:
    with pytest.raises(NoAnswer, match="too long"):
        place.control(name="x" * 100).start()


def test_one_that_hangs_is_not_waited_for(place: Place) -> None:
    control = place.control()
    control.start()
    place.wrong(hang=True)
    with pytest.raises(NoAnswer, match="does not answer within"):
        control.ask("get_server_list", timeout_s=0.2)


def test_without_a_daemon_the_programs_own_words_are_told(place: Place) -> None:
    with pytest.raises(NoAnswer, match="Cannot find MPS control daemon process"):
        place.control().ask("get_server_list")


def test_an_old_one_cannot_tell_its_servers_state(place: Place) -> None:
    control = place.control()
    control.start()
    place.client(control)
    place.wrong(old=True)
    assert [s.status for s in control.probe()] == [UNKNOWN]


def test_an_answer_of_empty_lines_is_read_once_over() -> None:
    """It took 20 s of the keeper's time: each line was read anew from each one before it."""
    assert control._pids("\n" * 65_536 + " 4711 \r\n12x\n") == [4711]
