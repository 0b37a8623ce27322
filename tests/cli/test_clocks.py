"""Clocks as a user meets them: patterns that never end, replies that are far too long."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.executor import EpisodeReport
from ethogram.harness.processes import KEPT_END
from ethogram.harness.run_result import Quiet
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Check, Suite, Task
from ethogram.store import open_home


def test_a_pattern_that_never_ends_is_missing_and_the_run_goes_on(call):
    checks = [{"kind": "regex", "settings": {"pattern": "(a+)+$"}}]
    tasks = [{"id": i, "prompt": "a" * n + "!" * (i == "trap"), "checks": checks} for i, n in (("trap", 40), ("ok", 3))]
    Path("tasks.jsonl").write_text("".join(json.dumps(t) + "\n" for t in tasks))
    Path("agent.py").write_text("def solve(task, episode):\n    return task.prompt\n")
    began = time.monotonic()
    said = call("run", "tasks.jsonl", "--agent", "agent.py:solve", "--max-seconds", "5", "--run", "r")
    assert time.monotonic() - began < 60
    assert said.code == 0
    assert "1 of 1 scored attempt succeeded" in said.out
    assert "1 missing (infrastructure.verifier 1)" in said.out
    run = open_home(os.environ.get("ETHOGRAM_HOME", ".ethogram")).run("r")
    (trap,) = [run.head(e).outcome for e in run.entries if e.head.task == "trap"]
    assert "did not come to an end within 5 s" in str(trap)


REPLY = "first " + "lorem ipsum 42 " * 2_000_000 + " last"


@pytest.fixture
def endpoint(http_agent: Any) -> str:
    return str(http_agent(lambda path, task: {"answer": REPLY if task["task"] == "large" else "42"}))


def test_a_reply_of_30_megabytes_keeps_both_ends_and_holds_up_nobody(endpoint: str, tmp_path: Path) -> None:
    class Watching(Quiet):
        reports: list[EpisodeReport] = []

        def done(self, report: EpisodeReport) -> None:
            self.reports.append(report)

    ends = Check(kind="regex", settings={"pattern": "last$"})
    names = ["large", *(f"t{i}" for i in range(30))]
    tasks = tuple(
        Task(id=n, prompt="?", expected="42", checks=(ends,) if n == "large" else (Check(kind="equals"),))
        for n in names
    )
    watching, home = Watching(), open_home(str(tmp_path / "home"))
    result = run_suite(Suite(name="s", tasks=tasks), endpoint, home=home, run="r", workers=2, progress=watching)
    assert result.successes == 31
    small = [r.seconds for r in watching.reports if r.task != "large"]
    print(f"slowest of the others: {max(small):.2f} s")
    assert max(small) < 2.5, "4 s before"
    run: Any = home.run("r")
    (entry,) = [e for e in run.entries if e.head.task == "large"]
    trace = run.trace(entry)
    lost = run.head(entry).meta["left_out"]
    assert 0 <= lost - (len(REPLY) - 2 * KEPT_END) < 10_000, "both ends are kept, cut between words"
    assert f"[... {lost} characters left out ...]" in trace.answer
    assert trace.answer.startswith("first ")
