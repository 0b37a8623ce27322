"""A paired experiment on Ray gives the rows of the local engine; Ray lives in a process of its own here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = pytest.mark.xdist_group("ray")

AGENT = '''
def agent(task, episode):
    """Adds up a column, in a random number of steps; looks again where it cannot."""
    for _ in range(2):
        if episode.rng.random() < 0.4:
            episode.tools["columns"](name="sales.csv")
        try:
            return str(episode.tools["total"](name="sales.csv", column="price"))
        except (LookupError, ValueError, RuntimeError):
            continue
    return "unknown"
'''
TRACES = {"trace", "baseline_trace"}
"""Ids of traces hold the name of their run."""


def perturb(place: Path, engine: str) -> dict[str, Any]:
    options = ["--agent", "agent.py:agent", "--file", "sales.csv", "--question", "What is the sum of the column price?"]
    options += ["--expected", "24", "--score", "numeric", "-k", "2", "--noise-floor", "3", "--workers", "2"]
    options += ["--operators", "row_duplicate,null_content,tool_error,prompt_typo", "--intensities", "0.5,1"]
    done = subprocess.run(
        [sys.executable, "-m", "ethogram.cli.main", "perturb", *options, "--engine", engine, "--run", engine, "--json"],
        capture_output=True,
        text=True,
        cwd=place,
        env={**os.environ, "ETHOGRAM_HOME": "home", "RAY_ADDRESS": "", "RAY_USAGE_STATS_ENABLED": "0"},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**p, "pair": {k: v for k, v in p["pair"].items() if k not in TRACES}} for p in found["pairs"]]


def test_the_rows_of_the_local_engine(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "sales.csv").write_text("item,price\napple,3\nbread,4\nmilk,2\ncheese,9\ntea,6\n")
    local, ray = perturb(tmp_path, "local"), perturb(tmp_path, "ray")
    assert len(local["pairs"]) == local["planned_pairs"] >= 14
    assert rows(ray) == rows(local)
    assert len({p["pair"]["manifestation"] for p in local["pairs"]}) > 1
    assert local["noise_floor"]["mean"] > 0
    for name in ("noise_floor", "aggregates", "dose_response", "missing", "not_applicable"):
        assert ray[name] == local[name], name
