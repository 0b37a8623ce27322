"""Logs into a real lake: every file is reported, nothing is counted twice, nothing is lost in silence."""

from __future__ import annotations

import gzip
import io
import json
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.home.maintenance import verify
from ethogram.questions.home.runs import show
from ethogram.questions.logs.imports import ImportOptions, import_logs
from ethogram.questions.logs.watch import watch_logs
from ethogram.store import Home
from ethogram.traces import Missing, Scored


def heads(home: Home, run: str) -> list[tuple[str, int, Any]]:
    return sorted(
        (e.head.task, e.head.attempt, e.head.outcome.value if isinstance(e.head.outcome, Scored) else None)
        for e in home.resolve(run).entries
    )


def words(home: Home, run: str) -> list[str]:
    return sorted(t.messages[0].text for t in home.resolve(run).traces())


# --- one command over a mixed folder -------------------------------------------------------------------------------


def test_a_mixed_folder_reports_every_file(logs: Any, home: Home, samples: dict[str, bytes]) -> None:
    for format, data in samples.items():
        logs.put(f"good/{format}.log", data)
    logs.put("packed.jsonl.gz", gzip.compress(samples["openai-chat"]))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("inside.json", logs.chat("boxed", "up"))
        archive.writestr("../outside.json", logs.chat("let", "out"))
    logs.put("box.zip", out.getvalue())
    bad = {
        "empty.json": (b"", "the file is empty"),
        "photo.png": (b"\x89PNG\r\n\x1a\n\0\0", "no reader recognises this content"),
        "notes.txt": (b"just words", "no reader recognises this content"),
        "windows.jsonl": (samples["openai-chat"].decode().encode("utf-16"), "UTF-16"),
        "torn.json.gz": (gzip.compress(samples["atif"])[:60], "damaged or cut off"),
    }
    for name, (data, _) in bad.items():
        logs.put(name, data)
    result = import_logs(logs.root, home=home, redact="none")
    files = {f.source: f for f in result.files}
    assert set(files) == {
        *(f"good/{f}.log" for f in samples),
        *bad,
        "packed.jsonl.gz",
        "box.zip/inside.json",
        "box.zip/../outside.json",
    }
    assert "name the file itself" in files["good/table.log"].skipped[0].why, "it may repeat the outcomes of a log"
    for format in samples.keys() - {"table"}:
        report = files[f"good/{format}.log"]
        assert (report.format, report.traces > 0, report.skipped) == (format, True, []), format
    for name, (_, why) in bad.items():
        assert why in files[name].skipped[0].why
        assert files[name].traces == 0
    assert (files["packed.jsonl.gz"].traces, files["packed.jsonl.gz"].unchanged) == (0, 2), "the same log, compressed"
    assert files["box.zip/../outside.json"].skipped[0].why == "the member's name points outside the archive"
    assert result.run == "logs"
    assert result.format == "mixed"
    assert result.traces == sum(f.traces for f in result.files) == len(home.resolve("logs").entries)
    assert result.spans == sum(f.spans for f in result.files)
    assert len(result.skipped) == sum(len(f.skipped) for f in result.files)
    assert json.loads(result.to_json())["traces"] == result.traces
    assert len(result.to_df()) == len(result.files)
    assert verify(home=home).ok
    shown = show("logs", home=home)
    assert shown.episodes == result.traces
    assert shown.lost == dict(sorted(result.lost.items()))


def test_importing_again_adds_nothing(
    logs: Any, home: Home, samples: dict[str, bytes], segments: Callable[[Home, str], int]
) -> None:
    for format, data in samples.items():
        if format != "table":  # which is read only where it is named
            logs.put(f"{format}.log", data)
    first = import_logs(logs.root, home=home)
    before = segments(home, "logs"), home.resolve("logs").entries
    again = import_logs(logs.root, home=home)
    assert (again.traces, again.spans, again.superseded, again.skipped) == (0, 0, 0, [])
    assert again.unchanged == first.traces
    assert {f.source: f.unchanged for f in again.files} == {f.source: f.traces for f in first.files}
    assert (segments(home, "logs"), home.resolve("logs").entries) == before


def test_importing_a_damaged_file_again_lists_again_what_is_wrong_with_it(logs: Any, home: Home) -> None:
    path = logs.put("a.jsonl", logs.chat("hello", "you") + b'{"messages": 5}\n{"messages": [\n' * 70)
    first, again = import_logs(path, home=home), import_logs(path, home=home)
    assert (first.traces, again.traces, again.unchanged) == (1, 0, 1)
    assert [r["skipped"] for r in again.rows()] == [140]
    assert again.skipped == first.skipped
    assert again.lost == first.lost
    assert show("a", home=home).skipped == 140, "counted once"


def test_two_files_of_the_same_content_are_one(logs: Any, home: Home) -> None:
    logs.put("a.jsonl", logs.chat("hello", "you"))
    logs.put("b.jsonl", logs.chat("hello", "you"))
    logs.put("c.jsonl", b'{"messages": 5}\n')
    logs.put("d.jsonl", b'{"messages": 5}\n')
    result = import_logs(logs.root, home=home, format="openai-chat")
    assert [(f.traces, f.unchanged, bool(f.skipped)) for f in result.files] == [
        (1, 0, False),
        (0, 1, False),
        (0, 0, True),
        (0, 0, True),
    ]
    assert len(home.resolve("logs").entries) == 1


def test_files_of_one_name_in_two_folders_are_two(logs: Any, home: Home) -> None:
    """`import */log.jsonl`, one after the other, or folder by folder: another log never supersedes."""
    one = logs.put("a/log.jsonl", logs.chat("one", "1"))
    two = logs.put("b/log.jsonl", logs.chat("two", "2"))
    both = import_logs([one, two], home=home, run="together")
    assert (both.traces, both.superseded) == (2, 0)
    for path in (one, two):
        import_logs(path, home=home, run="apart")
    import_logs([one.parent, two.parent], home=home, run="folders")
    for run in ("together", "apart", "folders"):
        assert words(home, run) == ["one", "two"]
    two.write_bytes(logs.chat("two", "2", "more", "3"))
    for paths, run in (([one, two], "together"), (two, "apart"), ([one.parent, two.parent], "folders")):
        assert import_logs(paths, home=home, run=run).superseded == 1
        assert words(home, run) == ["one", "two"]


def test_streams_are_known_by_their_content(home: Home, logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("one", "two", "one"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(logs.chat(said, "ok"))))
        import_logs("-", home=home)
    assert words(home, "stdin") == ["one", "two"]


# --- growing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["session", "chat", "ours"])
def test_a_file_that_has_grown_supersedes_its_trace(kind: str, logs: Any, home: Home, tmp_path: Path) -> None:
    def log(length: int) -> bytes:
        if kind == "session":
            return bytes(logs.session(length))
        if kind == "chat":
            return bytes(logs.chat(*(f"word {i}" for i in range(length))))
        spans = "".join(
            json.dumps({"type": "span", "trace_id": "t", "span_id": f"s{i}", "seq": i, "kind": "tool", "name": "x"})
            + "\n"
            for i in range(length)
        )
        head = {"type": "trace", "schema_version": 1, "head": {"trace_id": "t", "episode": "e", "task": "bell"}}
        return (json.dumps(head) + "\n" + spans + json.dumps({"type": "end", "spans": length})).encode()

    path = logs.put("log.jsonl", log(4))
    first = import_logs(path, home=home, run="growing")
    old = home.resolve("growing").entries[0].head
    path.write_bytes(log(8))
    second = import_logs(path, home=home, run="growing")
    assert (first.traces, first.superseded, second.traces, second.superseded) == (1, 0, 1, 1)
    (entry,) = home.resolve("growing").entries
    assert entry.totals.spans == 8
    assert entry.head.episode == old.episode
    assert entry.head.trace_id != old.trace_id
    assert entry.head.attempt == old.attempt
    assert entry.supersedes == old.trace_id
    path.write_bytes(log(6))
    third = import_logs(path, home=home, run="growing")
    assert (third.traces, third.superseded) == (0, 0)
    assert [s.why for s in third.skipped] == ["a longer version of this trace is here already"]
    path.write_bytes(log(4))
    assert import_logs(path, home=home, run="growing").unchanged == 1
    assert home.resolve("growing").entries == (entry,)
    assert verify(home=home).ok


def test_watching_a_folder(logs: Any, home: Home) -> None:
    options = ImportOptions(run="watched", redact="none")
    rounds = watch_logs(logs.root, options, home=home, seconds=0.01, rounds=4)
    logs.put("a.jsonl", logs.session(2))
    assert (first := next(rounds)).traces == 1
    logs.put("b.jsonl", logs.chat("new", "one"))
    logs.put("a.jsonl", logs.session(6))
    second = next(rounds)
    assert (second.traces, second.superseded) == (2, 1)
    (logs.root / "b.jsonl").unlink()
    assert list(rounds) == [], "nothing new, nothing said"
    assert first.run == second.run == "watched"
    assert sorted(e.totals.spans for e in home.resolve("watched").entries) == [2, 6]


def test_watching_what_is_not_there_yet(logs: Any, home: Home) -> None:
    path = logs.root / "later.jsonl"
    assert list(watch_logs(path, ImportOptions(run="w"), home=home, seconds=0.01, rounds=2)) == []
    path.write_bytes(logs.chat("a", "b"))
    assert [r.traces for r in watch_logs([path], ImportOptions(run="w"), home=home, seconds=0.01, rounds=2)] == [1]


# --- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("night.json", "night"),
        ("night.traj.json.gz", "night"),
        ("gpt-4.1.json", "gpt-4.1"),
        ("v1.2", "v1.2"),
        ("ein Lauf (2).jsonl", "ein-Lauf-2"),
        ("latest.json", "import"),
        (".json", "json"),
        ("???.json", "import"),
    ],
)
def test_a_run_is_named_after_the_file(name: str, run: str, logs: Any, home: Home) -> None:
    assert import_logs(logs.put(name, logs.chat("a", "b")), home=home).run == run


def test_a_folder_keeps_its_whole_name(logs: Any, home: Home) -> None:
    for version in ("gpt-4.1", "gpt-4.5"):
        path = logs.put(f"{version}/log.jsonl", logs.chat(version, "b"))
        assert import_logs(path.parent, home=home).run == version


def test_runs_that_exist_and_names_that_cannot_be(logs: Any, home: Home) -> None:
    path = logs.put("a.jsonl", logs.chat("a", "b"))
    home.create("mine", "run")
    with pytest.raises(BadUsage, match="'mine' is a run run; choose another name with run"):
        import_logs(path, home=home, run="mine")
    with pytest.raises(BadUsage, match="cannot name a run"):
        import_logs(path, home=home, run="a/b")
    with pytest.raises(NotFound, match="did you mean 'openai-chat'"):
        import_logs(path, home=home, format="openai-chatt")
    with pytest.raises(NotFound, match="no file or folder"):
        import_logs([path, "nowhere"], home=home)
    with pytest.raises(BadUsage, match="at least one"):
        import_logs([], home=home)
    assert home.names() == ["mine"], "nothing was made on the way"


def test_tags_and_a_second_import_into_a_run(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.jsonl", logs.chat("a", "b")), home=home, run="r", tags=("x", "y"))
    import_logs(logs.put("b.jsonl", logs.chat("c", "d")), home=home, run="r")
    assert home.resolve("r").info.tags == ("x", "y")
    assert words(home, "r") == ["a", "c"]


def test_sealing(logs: Any, home: Home) -> None:
    path = logs.put("a.jsonl", logs.chat("open sesame", "b"))
    with pytest.raises(BadUsage, match="no key to seal with"):
        import_logs(path, home=home, run="sealed", seal=True)
    home.keys.new()
    import_logs(path, home=home, run="sealed", redact="none")
    import_logs(path, home=home, run="open", seal=False, redact="none")
    assert show("sealed", home=home).sealed
    assert not show("open", home=home).sealed
    assert words(home, "sealed") == words(home, "open") == ["open sesame"]
    assert verify(home=home).ok


def test_progress_is_told_in_bytes_of_the_file(logs: Any, home: Home) -> None:
    data = gzip.compress(b"".join(logs.chat(f"{i}" * 100, "b") for i in range(300)))
    path = logs.put("a.jsonl.gz", data)
    told: list[tuple[str, int, int]] = []
    import_logs(path, home=home, progress=lambda name, count, size: told.append((name, count, size)))
    assert {(name, size) for name, _, size in told} == {("a.jsonl.gz", len(data))}
    assert sum(count for _, count, _ in told) >= len(data)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that exists and cannot be read")
def test_a_file_that_cannot_be_read_does_not_stop_the_others(logs: Any, home: Home) -> None:
    logs.put("a.jsonl", logs.chat("a", "b"))
    (logs.root / "b.jsonl").symlink_to("/proc/self/mem")
    logs.put("c.jsonl", logs.chat("c", "d"))
    result = import_logs(logs.root, home=home)
    assert {f.source: bool(f.traces) for f in result.files} == {"a.jsonl": True, "b.jsonl": False, "c.jsonl": True}
    assert result.skipped[0].why.startswith("cannot be read")


def test_a_thousand_small_files_make_few_segments(logs: Any, home: Home) -> None:
    for i in range(1000):
        logs.put(f"{i % 10}/{i:04d}.jsonl", logs.chat(f"question {i}", "answer"))
    began = time.process_time()
    result = import_logs(logs.root, home=home)
    took = time.process_time() - began
    assert (result.traces, len(result.files)) == (1000, 1000)
    assert len(home.resolve("logs").segments()) <= 3
    assert took < 20, f"{took:.1f} s of computing for a thousand small files"
    began = time.process_time()
    assert import_logs(logs.root, home=home).unchanged == 1000
    assert time.process_time() - began < 20


# --- attempts ------------------------------------------------------------------------------------------------------


def test_attempts_never_collide(logs: Any, home: Home) -> None:
    logs.put("a.json", [logs.turns("x", 0), logs.turns("x", 1)])
    logs.put("b.json", [logs.turns("x", 0, words="again"), logs.turns("y", 5)])
    logs.put("c.json", [{k: v for k, v in logs.turns("x", 0, words="third").items() if k != "trial"}])
    result = import_logs(logs.root, home=home)
    assert [(t, a) for t, a, _ in heads(home, "logs")] == [("x", 0), ("x", 1), ("x", 2), ("x", 3), ("y", 5)]
    assert result.lost["attempt (renumbered)"] == 1


def test_an_attempt_stays_with_its_trace_unless_its_task_changes(logs: Any, home: Home) -> None:
    path = logs.put("x.jsonl", logs.chat("a", "b"))
    import_logs(logs.put("1.jsonl", logs.chat("c", "d")), home=home, run="r")
    import_logs(path, home=home, run="r")
    import_logs(logs.put("x-task.json", [logs.turns("x", 0)]), home=home, run="r")
    path.write_bytes(logs.chat("a", "b", "c", "d"))
    import_logs(path, home=home, run="r", task_from="name:^[a-z]")
    assert [(t, a) for t, a, _ in heads(home, "r")] == [("c", 0), ("x", 0), ("x", 1)]
    path.write_bytes(logs.chat("a", "b", "c", "d", "e", "f"))
    import_logs(path, home=home, run="r", task_from="name:^[a-z]")
    assert [(t, a) for t, a, _ in heads(home, "r")] == [("c", 0), ("x", 0), ("x", 1)]


def test_what_the_ledger_keeps_is_missing_where_the_log_has_no_verdict(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.json", [logs.turns("x", 0, None)]), home=home, run="r")
    assert home.resolve("r").entries[0].head.outcome == Missing("unscored")


def test_absurd_numbers_reach_no_column_that_cannot_hold_them(logs: Any, home: Home) -> None:
    """What would stop a whole commit must be mended before it: one bad log must not cost the others."""
    head = {"trace_id": "t", "episode": "e", "task": "²", "attempt": 10**12, "seed": 10**30, "meta": {"n": 10**30}}
    span = {"trace_id": "t", "span_id": "s", "seq": 2**40, "kind": "tool", "name": "x", "params": {"n": 10**30}}
    label = {"trace_id": "t", "name": "n", "value": 1, "by": "x", "source": "hand", "at_ns": 10**25}
    lines = [
        {"type": "trace", "schema_version": 1, "head": head},
        {"type": "span", **span},
        {"type": "label", **label},
        {"type": "end", "spans": 1},
    ]
    logs.put("a.jsonl", b"\n".join(json.dumps(line).encode() for line in lines))
    logs.put("b.jsonl", logs.chat("good", "one"))
    result = import_logs(logs.root, home=home)
    assert result.traces == 2
    assert {"seq (out of range)", "attempt (out of range)", "time (out of range)"} <= set(result.lost)
    assert verify(home=home).ok
    assert [t.task for t in show("logs", home=home).tasks] == ["good", "²"]


@pytest.mark.parametrize("depth", [990, 1500, 20_000])
def test_arguments_without_an_end_cost_their_record_and_no_other(depth: int, logs: Any, home: Home) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    call = f'{{"role": "assistant", "tool_calls": [{{"function": {{"name": "f", "arguments": {deep}}}}}]}}'
    talk = f'{{"messages": [{{"role": "user", "content": "x"}}, {call}]}}\n'
    logs.put("a.jsonl", logs.chat("before", "it") + talk.encode() + logs.chat("behind", "it"))
    logs.put("b.jsonl", logs.chat("another", "file"))
    result = import_logs(logs.root, home=home, run="r")
    assert words(home, "r") == ["another", "before", "behind"] + ["x"] * (result.traces - 3)
    assert len(result.skipped) == 1, "one sentence"
    assert any(word in result.skipped[0].why for word in ("nested", "recursion"))
