"""Looking: lists, one run, one trace, and what is said where something is missing, forgotten, damaged or in use."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, Damaged, Locked, NotFound
from ethogram.questions.home.maintenance import retain
from ethogram.questions.home.runs import load, rm, runs, show
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.traces import find_trace, trace
from ethogram.store import Home
from ethogram.store.files import LocalFiles


def damage(home: Home, run: str) -> None:
    """One byte of the ledger changes."""
    assert isinstance(home.files, LocalFiles)
    (segment,) = (Path(home.files.root) / "runs" / run / "ledger").iterdir()
    data = segment.read_bytes()
    segment.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])


def test_an_empty_home(home: Home) -> None:
    assert runs(home=home).runs == []
    assert runs(home=home).to_df().empty
    for look in (show, load):
        with pytest.raises(NotFound, match=r"there are no runs in .*; begin with: ethogram import PATH"):
            look(home=home)
    with pytest.raises(NotFound, match="no trace 'abc'"):
        trace("abc", home=home)


def test_a_list_of_runs(bells: str, home: Home, logs: Any) -> None:
    import_logs(logs.put("b.jsonl", logs.chat("a", "b")), home=home, run="second")
    listed = runs(home=home)
    assert [(r.run, r.kind, r.episodes, r.scored, r.missing, r.tags) for r in listed.runs] == [
        ("bells", "import", 4, 4, 0, ("small",)),
        ("second", "import", 1, 0, 1, ()),
    ]
    assert [r.run for r in runs(home=home, tag="small").runs] == ["bells"]
    assert runs(home=home, tag="none").runs == []
    assert list(listed.to_df()["episodes"]) == [4, 1]
    assert json.loads(listed.to_json())["runs"][0]["tags"] == ["small"]


def test_one_damaged_run_does_not_hide_the_others(bells: str, home: Home, logs: Any) -> None:
    import_logs(logs.put("b.jsonl", logs.chat("a", "b")), home=home, run="second")
    damage(home, "bells")
    first, second = runs(home=home).runs
    assert first.problem is not None
    assert "does not match its hash" in first.problem
    assert (second.episodes, second.problem) == (1, None)
    trace = load("second", home=home).entries[0].head.trace_id
    assert find_trace(trace, home=home)[0].name == "second"
    with pytest.raises(Damaged, match="does not match its hash"):
        find_trace("ffffffffffff", home=home)


def test_what_is_in_a_run(bells: str, home: Home) -> None:
    shown = show(home=home)
    assert (shown.run, shown.kind, shown.episodes, shown.scored, shown.missing) == ("bells", "import", 4, 4, {})
    assert (shown.formats, shown.tags, shown.redaction, shown.sealed) == ({"tau-bench": 4}, ("small",), "none", False)
    assert [(t.task, t.attempts, t.successes, t.mean) for t in shown.tasks] == [("0", 2, 2, 1.0), ("1", 2, 1, 0.5)]
    assert (shown.totals.spans, shown.totals.steps, shown.totals.tool_calls, shown.totals.errors) == (16, 16, 4, 1)
    assert shown.totals.input_tokens is None
    assert shown.bytes > 0
    assert show("bells", home=home) == shown
    frame = shown.to_df()
    assert list(frame["score"]) == [1.0, 1.0, 1.0, 0.0]
    assert int(frame["spans"].sum()) == 16
    assert json.loads(shown.to_json())["tasks"][1]["mean"] == 0.5


def test_tasks_are_listed_as_people_count(logs: Any, home: Home) -> None:
    odd = ["10", "9", "²", "b", "a10", "", "9" * 5000, "007"]
    import_logs(logs.put("a.json", [logs.turns(t, 0) for t in odd]), home=home, run="odd", redact="none")
    listed = [t.task for t in show("odd", home=home).tasks]
    assert listed[:3] == ["007", "9", "10"]
    assert sorted(t for t in listed if not t.startswith("unknown:")) == sorted(filter(None, odd))
    assert len(listed) == len(odd)


def test_what_was_skipped_and_lost_stays_known(logs: Any, home: Home) -> None:
    data = logs.chat("a", "b") + b"not json\n"
    result = import_logs(logs.put("a.jsonl", data), home=home, run="r")
    for _ in range(2):
        assert show("r", home=home).skipped == len(result.skipped) == 1
        import_logs(logs.root, home=home, run="r")


def test_a_trace_as_a_tree(bells: str, home: Home) -> None:
    entry = next(e for e in load(bells, home=home).entries if e.totals.errors)
    tree = trace(entry.head.trace_id, home=home)
    assert (tree.run, tree.task, tree.attempt, tree.score, tree.missing) == ("bells", "1", 1, 0.0, None)
    assert [(s.depth, s.kind, s.name, s.step) for s in tree.spans] == [
        (0, "user", "user", 0),
        (0, "model", "chat", 1),
        (0, "tool", "ring", 2),
        (0, "model", "chat", 3),
    ]
    assert [s.preview for s in tree.spans] == [
        "Ring the bell.",
        'ring({"times": 1})',
        '{"times": 1} → Error: no bell',
        "Rung, 1.",
    ]
    assert (tree.shown, tree.of, tree.source) == (4, 4, "bells.json")
    assert list(tree.to_df()["status"]) == ["unset", "unset", "error", "unset"]
    assert json.loads(tree.to_json())["totals"]["errors"] == 1


def test_a_long_trace_is_shown_up_to_a_limit(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.jsonl", logs.session(60)), home=home, run="long")
    for limit, shown in ((5, 5), (0, 0), (None, 60), (400, 60)):
        tree = trace("", run="long", home=home, limit=limit)
        assert (tree.shown, len(tree.spans), tree.of) == (shown, shown, 60)


def test_long_words_are_shortened_and_stay_on_one_line(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.jsonl", logs.chat("line\n" * 500, "ok")), home=home, run="r")
    preview = trace("", home=home).spans[0].preview
    assert len(preview) == 160
    assert preview.endswith("…")
    assert "\n" not in preview


def test_traces_are_found_by_the_start_of_their_id(bells: str, home: Home, logs: Any) -> None:
    ids = [e.head.trace_id for e in load(bells, home=home).entries]
    for wanted in (ids[0], ids[0][:12], ids[0].removeprefix("b2:")[:9]):
        assert find_trace(wanted, home=home)[1].head.trace_id == ids[0]
    with pytest.raises(BadUsage, match="4 traces of 'bells' begin with 'b2:'; give more digits"):
        find_trace("b2:", run=bells, home=home)
    with pytest.raises(NotFound, match="list them with: ethogram show bells"):
        find_trace("xyz", run=bells, home=home)
    import_logs(logs.root / "bells.json", home=home, run="copy", redact="none")
    assert find_trace(ids[0], home=home)[0].name == "copy", "the newest of the runs that hold it"
    assert find_trace(ids[0], run="bells", home=home)[0].name == "bells"


def test_a_start_that_two_runs_share_is_ambiguous(logs: Any, home: Home) -> None:
    """One trace in each of many runs: some of them begin with the same digit."""
    for i in range(17):
        import_logs(logs.put(f"{i}.jsonl", logs.chat(f"{i}", "ok")), home=home, run=f"r{i}")
    starts = Counter(r.entries[0].head.trace_id.removeprefix("b2:")[0] for r in home.runs())
    shared = starts.most_common(1)[0][0]
    with pytest.raises(BadUsage, match="traces of several runs begin with"):
        find_trace(shared, home=home)


def test_a_forgotten_trace_says_why(bells: str, home: Home) -> None:
    retain([bells], keep_all="0s", sample=0.0, apply=True, home=home)
    shown = show(bells, home=home)
    assert (shown.episodes, shown.forgotten, shown.scored) == (4, 3, 4)
    gone = next(t for t in shown.traces if t.forgotten)
    with pytest.raises(NotFound, match=f"trace {gone.trace_id} is no longer kept: older than 0 s"):
        trace(gone.trace_id, home=home)


def test_removing(bells: str, home: Home) -> None:
    with home.resolve(bells).writer(home.redactor(_none())), pytest.raises(Locked, match="1 writer"):
        rm(bells, home=home)
    removed = rm(bells, home=home)
    assert (removed.run, removed.episodes, removed.bytes > 0) == ("bells", 4, True)
    assert home.names() == []
    with pytest.raises(NotFound):
        rm(bells, home=home)


def _none() -> Any:
    from ethogram.store import Policy

    return Policy(kinds=())


def test_a_run_by_its_directory(bells: str, home: Home) -> None:
    assert isinstance(home.files, LocalFiles)
    assert show(str(Path(home.files.root) / "runs" / bells), home=home).episodes == 4
    with pytest.raises(NotFound, match="did you mean 'bells'"):
        show("belles", home=home)


def test_a_trace_is_opened_by_its_id_or_the_start_of_it(logs: Any, home: Home) -> None:
    logs.put("a.json", logs.chat("good morning", "hello"))
    import_logs(logs.root, home=home, run="r")
    run = load("r", home=home)
    (entry,) = run.entries
    for wanted in (entry, entry.head.trace_id, entry.head.trace_id.removeprefix("b2:")[:8]):
        assert run.trace(wanted).head == entry.head
    with pytest.raises(NotFound, match="no trace 'zzz' in run 'r'"):
        run.trace("zzz")
