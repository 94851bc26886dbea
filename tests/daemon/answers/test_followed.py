"""What `--after` means when it names jobs as commands do: by name, pattern or `@`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from radrm.daemon.serving.turns import finish
from radrm.daemon.views.references import References
from radrm.errors import Refused
from radrm.host.storage.store import Store
from radrm.jobfile.parsing import typed
from radrm.structs import replace
from tests.host.storage.stores import submission_of
from tests.world import World, gpus

ME, OTHER = 1000, 2000
Follow = Callable[..., list[str]]


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    """Jobs 1 and 2, `old`, have ended; 3, `prep`, too. Open: 4 and 5, `prep`; 6, `prep` of somebody
    else; array 7 to 9, `sweep`, of which 7 has ended; 10, `theirs` of somebody else."""
    world = World(gpus(1))
    for name in ("old", "old", "prep"):
        world.end(world.submit(1000, name=name), 1)
    for uid in (ME, ME, OTHER):
        world.submit(1000, name="prep", uid=uid)
    world.cancel(world.submit_array(3, 1000, name="sweep")[0])
    world.submit(1000, name="theirs", uid=OTHER)
    store = Store(str(tmp_path / "radrm.sqlite"))
    jobs = world.jobs.values()
    store.save(world.decisions, [replace(submission_of(j), uid=j.spec.uid) for j in jobs])

    def followed(*words: str) -> list[str]:
        find = References(world.scheduler, store, ME)
        return finish(find.followed(typed({"after": list(words)}).after))

    return followed


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["3:failed", "8_1:any"], ["3:failed", "8_1:any"]),  # they are what they are
        (["prep"], ["4:ok", "5:ok"]),  # one's own that have not ended
        (["prep:any", "4"], ["4:any", "5:any", "4:ok"]),
        (["p*"], ["4:ok", "5:ok"]),
        (["sweep"], ["7:ok"]),  # the array
        (["sweep", "s*"], ["7:ok"]),
        (["old:failed"], ["2:failed"]),  # the latest
        (["theirs"], ["10:ok"]),
        (["@"], ["7:ok"]),
        (["@~1"], ["5:ok"]),
    ],
)
def test_what_a_job_follows(follow: Follow, words: list[str], found: list[str]) -> None:
    assert follow(*words) == found


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("nobody", "--after=nobody: there is no job nobody"),
        ("7_[0-1]", "for each element"),
        ("o*", "no unfinished job has such a name; name one that has ended by its id"),
        ("@~99", "you have no job that @~99 could mean"),
    ],
)
def test_a_word_that_means_no_job_is_refused(follow: Follow, word: str, why: str) -> None:
    with pytest.raises(Refused, match=why.replace("*", r"\*")):
        follow(word)


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("1_[0-9]", [1, 2, 3, 4, 5]),
        ("1_[1-4:2]", [2, 4]),
        ("1_[4,0-1,1]", [5, 1, 2]),
        ("1_[3]", [4]),
        *(
            (word, None)
            for word in ("1_[7-9]", "1_[3-1]", "1_[]", "1_[1-]", "1_[1-4:0]", "2_[0-9]")
        ),
    ],
)
def test_elements_as_status_shows_them(tmp_path: Path, word: str, ids: list[int] | None) -> None:
    world = World(gpus(1))
    world.submit_array(5, 1000, name="sweep")
    store = Store(str(tmp_path / "radrm.sqlite"))
    store.save(world.decisions, [submission_of(job) for job in world.jobs.values()])
    (found,) = finish(References(world.scheduler, store).find([word]))
    assert (None if found.error else list(found.ids)) == ids


def test_a_name_of_somebody_else_is_not_said_to_be_nobodys(tmp_path: Path) -> None:
    world = World(gpus(1))
    world.submit(1000, name="theirs", uid=OTHER)
    store = Store(str(tmp_path / "radrm.sqlite"))
    jobs = world.jobs.values()
    store.save(world.decisions, [replace(submission_of(j), uid=j.spec.uid) for j in jobs])
    (mine,) = finish(References(world.scheduler, store, ME, others=False).find(["theirs"]))
    (anyones,) = finish(References(world.scheduler, store, ME).find(["theirs"]))
    assert str(mine.error).startswith("you have no job") and list(anyones.ids) == [1]
