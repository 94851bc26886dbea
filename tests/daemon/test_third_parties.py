"""Rules of third parties, found by their entry points: one that fails ends nobody's daemon."""

from __future__ import annotations

import json

from tests.daemon.harness import DaemonHome

RULES = """
class Broken:
    name, version, floor_mib, whole_device, overcommits = "broken", 1, 1024, False, False

    def refuse(self, ask, offer):
        raise KeyError(offer.device.uuid)

    def choose(self, ask, eligible, state):
        return eligible[:1], {1, 2}
"""


def test_a_policy_that_raises_is_set_aside_and_said(home: DaemonHome) -> None:
    folder = home.folder / "packages"
    about = folder / "third_party-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "third_party.py").write_text(RULES)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[radrm.policies]\nbroken = third_party:Broken\n")
    home.environment["PYTHONPATH"] += f":{folder}"
    home.settings = ["policy=broken", "core.retry_s=90000", "core.retry_most_s=90000"]
    home.start()
    first = home.submit("--gpu-memory=1G", "--", "true")
    second = home.submit("--gpu-memory=1G", "--", "true")
    for job in (first, second):
        assert home.wait_end(job)["state"] == "COMPLETED"
    said = [line for line in home.said().splitlines() if "the policy broken failed" in line]
    assert len(said) == 1 and "KeyError" in said[0] and "third_party.py:6" in said[0]
    assert "exclusive is used in its place" in said[0]
    findings = json.loads(home.radrm("doctor", "--json").stdout)
    (rules,) = [found for found in findings if found["check"] == "rules"]
    assert rules["level"] == "warn" and "the policy broken failed" in rules["finding"]
