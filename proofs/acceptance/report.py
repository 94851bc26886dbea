"""The page for docs/lab and the raw outputs beside it, from the results of the steps.

Only the standard library and the plan are imported: a page can be written anywhere.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]


def word_of(result: dict[str, Any]) -> str:
    """How a step ended. NOT HERE: this machine cannot show it; nothing is settled."""
    if not result["passes"]:
        return "FAILED"
    return "ok" if result.get("here", True) else "NOT HERE"


def write(folders: Sequence[Path], out: Path) -> Path:
    """Write `DATE-GPU.md` and `DATE-GPU.tar.gz` into `out` from these folders; the page's path."""
    results: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for file in sorted((folder / "results").glob("*.json")):
            found = json.loads(file.read_text())
            results[found["name"]] = found
    gpu = _gpu(results)
    day = datetime.date.today().isoformat()
    rehearsed = any(each.get("rehearsal") for each in results.values())
    name = f"{day}-{re.sub('[^a-z0-9]+', '-', gpu.lower()).strip('-')}"
    if rehearsed:
        gpu, name = "stand-ins", f"rehearsal-{day}"
    out.mkdir(parents=True, exist_ok=True)
    page = out / f"{name}.md"
    lines = _page(day, gpu, results)
    if rehearsed:
        lines[1:1] = ["", "**A rehearsal without a GPU: nothing on this page is a measurement.**"]
    page.write_text("\n".join(lines) + "\n")
    with tarfile.open(out / f"{name}.tar.gz", "w:gz") as archive:
        for folder in folders:
            for part in ("raw", "results", "logs"):
                for file in sorted((folder / part).glob("*")):
                    archive.add(file, f"{name}/{part}/{file.name}", filter=_nobodys)
    return page


def _page(day: str, gpu: str, results: dict[str, dict[str, Any]]) -> list[str]:
    from proofs.acceptance import thesis
    from proofs.acceptance.plan import PLAN

    facts = results.get("facts", {}).get("facts", {})
    planned = {each.name: each for each in PLAN}
    order = [*planned, *(key for key in results if key not in planned)]
    there = [results[key] for key in order if key in results]
    passed = sum(word_of(each) == "ok" for each in there)
    lines = [f"# Acceptance run, {day}, {gpu}", ""]
    lines += [
        f"{passed} of {len(there)} steps passed; {len(PLAN)} are planned, and `clean` a part."
    ]
    lines += ["", "## Machine", ""]
    lines += [f"- GPU: {gpu}", f"- CPUs: {facts.get('cpus')}, {facts.get('host_memory_mib')} MiB"]
    lines += [f"- kernel {facts.get('kernel')}, Python {facts.get('python')}"]
    lines += [f"- PyTorch: {json.dumps(facts.get('torch'))}"]
    lines += [f"- cgroups: {facts.get('cgroup')}; profiling: {facts.get('profiling')}"]
    lines += [
        "- radrm: commit " + _commit(),
        "- Settings: the defaults, but where a step sets some.",
    ]
    lines += ["- Compute mode, clocks, power limit and MIG are as found:", "", "```"]
    lines += [str(facts.get("fields", "unknown")).strip(), "```"]
    lines += ["", "## Commands", "", "    make gpu-accept PART=1    # then 2 to 6", ""]
    lines += [
        "One run each, so there is no spread. Other users of the GPU would show in `activity-idle`."
    ]
    lines += ["The raw outputs are in the archive of the same name.", ""]
    lines += ["## Steps", "", "| step | result | s | what was found | what it settles |"]
    lines += ["|---|---|---|---|---|"]
    for each in there:
        settles = planned[each["name"]].settles if each["name"] in planned else "nothing is left"
        word = {"ok": "passed", "FAILED": "**failed**"}.get(word_of(each), "not here")
        found = _cell(each["line"])
        lines.append(f"| {each['name']} | {word} | {each['seconds']:.0f} | {found} | {settles} |")
    missing = [key for key in planned if key not in results]
    if missing:
        lines += ["", f"Not run: {', '.join(missing)}."]
    for name, (title, key, made) in thesis.TABLES.items():
        told = results.get(name, {}).get("facts", {})
        if key in told:
            lines += ["", f"## {title}", "", *made(told)]
    lines += ["", "## Findings", "", "```json"]
    kept = {each["name"]: each["facts"] for each in there if each["facts"]}
    lines += [json.dumps(kept, indent=1, default=str), "```"]
    return lines


def _gpu(results: dict[str, dict[str, Any]]) -> str:
    """The GPU's name, from the query of step `facts`."""
    fields = results.get("facts", {}).get("facts", {}).get("fields", "")
    rows = [line.split(", ") for line in str(fields).splitlines()[1:]]
    return rows[0][1] if rows and len(rows[0]) > 1 else "unknown GPU"


def _commit() -> str:
    try:
        command = ["git", "-C", str(REPOSITORY), "rev-parse", "--short=12", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "/").split())[:300]


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
