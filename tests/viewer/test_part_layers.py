"""Success by layer on paper: what is not measured says so, and a report without layers has no such part."""

from __future__ import annotations

from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.store import Home
from ethogram.viewer.report.parts import report_view


def suite() -> Suite:
    checks = (
        Check(kind="equals", settings={"expected": "yes"}, required=False),
        Check(kind="tool_calls", settings={"calls": [{"name": "look"}]}),
    )
    return Suite(name="doors", tasks=tuple(Task(id=f"t{i}", prompt="?", checks=checks) for i in range(4)))


def good(task: Task, episode: object) -> str:
    episode.record.tool("look", lambda: "a door")  # type: ignore[attr-defined]
    return "yes"


def blind(task: Task, episode: object) -> str:
    return "yes"


def test_a_report_has_a_row_per_layer_and_says_which_moved(home: Home) -> None:
    run(suite(), good, k=6, home=home, run="old")
    run(suite(), blind, k=6, home=home, run="new")
    parts = {s.id: s for s in report_view("old", home=home).sections}
    rows = parts["layers"].tables[0].rows
    assert [row[0] for row in rows] == ["L0 the answer", "L1 tool calls", "L2 the way taken", "L3 end state"]
    assert [row[1] == "not measured" for row in rows] == [False, False, True, True]
    both = next(s for s in report_view("old", "new", home=home).sections if s.id == "compare")
    assert any("L1 (tool calls) fell by 1.00" in p and "descriptions of tools" in p for p in both.paragraphs)
    assert any(t.caption == "success by layer" for t in both.tables)
