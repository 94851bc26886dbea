"""What a reload does in which order, without a daemon."""

from __future__ import annotations

from typing import Any, cast

import pytest

from radrm.config import Config, UserLimits, parse_config
from radrm.core.settings import CoreSettings
from radrm.daemon.reload.reloading import Makers, Reloading
from radrm.errors import BadConfig, RadrmError
from radrm.wiring import make_costs, make_rules, make_settings


class Site:
    """A daemon's parts, which note what a reload tells them."""

    def __init__(self, text: str = "", shared: bool = True) -> None:
        self.text = text
        self.scheduler: Any = None
        self.renewed: list[tuple[str, CoreSettings]] = []
        self.kept: list[Any] = []
        self.applied: list[Config] = []
        self.users = UserLimits(self.read().limits, shared=shared)
        makers = Makers(
            self.read,
            lambda config: (make_rules(config), make_costs(config)),
            make_settings,
            lambda rules, costs: cast(Any, None),
        )
        retention: Any = self
        self.reloading = Reloading(self.read(), makers, self.users, retention, self.applied.append)

    def read(self) -> Config:
        return parse_config(self.text, "test")

    def set(self, config: Any) -> None:
        self.kept.append(config)

    def renew(self, rules: Any, core: CoreSettings, costs: Any, foresight: Any) -> None:
        self.renewed.append((rules.order.name, core))

    def reload(self, text: str) -> list[str]:
        self.text = text
        return [each.key for each in self.reloading.reload(self)]


def test_only_what_the_scheduler_uses_lets_it_begin_anew() -> None:
    site = Site()
    assert site.reload("[limits]\nqueued_jobs = 5\n[retention]\nfinished_jobs = 999") == [
        "limits.queued_jobs",
        "retention.finished_jobs",
    ]
    assert not site.renewed and site.users.of(1).queued_jobs == 5
    assert [each.finished_jobs for each in site.kept] == [999]
    assert site.reload('order = "weight"\n[limits]\nqueued_jobs = 5\ngpus = 2')
    ((order, core),) = site.renewed
    assert (order, core.user_gpus) == ("weight", 2)


def test_what_needs_a_restart_keeps_its_value_and_is_named_again() -> None:
    site = Site()
    for _ in range(2):
        assert site.reload("[mps]\nenabled = true") == ["mps.enabled"]
    assert not site.renewed and not any(each.mps.enabled for each in site.applied)


@pytest.mark.parametrize(
    "text",
    [
        "[limits]\ngpus = 2\n[idle]\nfor_s = 1",
        "[limits]\ngpus = 2\n[slots]\nlength_s = 100",
        'order = "none"',
    ],
)
def test_a_mistake_changes_nothing(text: str) -> None:
    site = Site()
    with pytest.raises(BadConfig):
        site.reload(text)
    assert not (site.renewed or site.kept or site.applied) and site.users.of(1).gpus == 0


@pytest.mark.parametrize("before", ["", 'planner = "andreas"'])
def test_planners_with_a_process_of_their_own_need_a_restart(before: str) -> None:
    site = Site(before)
    with pytest.raises(RadrmError, match="andreas has a process of its own"):
        site.reload('planner = "andreas"\norder = "weight"')
    assert not site.renewed and not site.applied
    if before:
        assert site.reload(f"{before}\n[limits]\nqueued_jobs = 5") == ["limits.queued_jobs"]


def test_a_daemon_of_one_user_still_applies_no_limits() -> None:
    site = Site(shared=False)
    site.reload("[limits]\nqueued_jobs = 5")
    assert site.users.of(1).queued_jobs == 0
