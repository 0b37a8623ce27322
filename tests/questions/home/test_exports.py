"""Out again: every format, and back in with the same words, tokens, tasks and outcomes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.home.exports import FORMATS, export
from ethogram.questions.home.maintenance import retain
from ethogram.questions.home.queries import sql
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home
from ethogram.traces import Scored, Trace


@pytest.fixture
def rich(logs: Any, home: Home) -> str:
    """A run with scored and unscored traces, tools, errors, tokens, times and labels."""
    logs.put("bells.json", [logs.turns(t, k, float((t, k) != (1, 1))) for k in (0, 1) for t in (0, 1)])
    logs.put("session.jsonl", logs.session(7))
    head = {"trace_id": "t", "episode": "e", "task": "made", "outcome": {"outcome": "scored", "value": 0.25}, "seed": 7}
    lines = [
        {"type": "trace", "schema_version": 1, "head": head},
        {
            "type": "text",
            "ref": "b2:1",
            "body": json.dumps({"role": "user", "parts": [{"type": "text", "text": "=1+1"}]}),
        },
        {"type": "span", "trace_id": "t", "span_id": "s", "seq": 0, "kind": "user", "name": "user", "output": ["b2:1"]},
        {"type": "label", "trace_id": "t", "name": "mood", "value": "@glad", "by": "ear", "source": "hand"},
        {"type": "end", "spans": 1},
    ]
    logs.put("made.jsonl", b"\n".join(json.dumps(line).encode() for line in lines))
    import_logs(logs.root, home=home, run="rich", redact="none")
    return "rich"


def essence(trace: Trace) -> tuple[Any, ...]:
    """What every format must carry."""
    outcome = trace.outcome.value if isinstance(trace.outcome, Scored) else None
    said = [(m.role, m.text, [(c.name, json.loads(c.arguments or "{}")) for c in m.tool_calls]) for m in trace.messages]
    totals = trace.totals
    tokens = (totals.input_tokens, totals.output_tokens, totals.model_calls, totals.tool_calls)
    return trace.head.task, trace.head.attempt, outcome, tokens, said


def all_of(home: Home, run: str) -> list[tuple[Any, ...]]:
    return sorted((essence(t) for t in home.resolve(run).traces()), key=repr)


def test_a_run_that_is_open_already(rich: str, home: Home, tmp_path: Path) -> None:
    result = export(home.resolve(rich), "jsonl", out=tmp_path / "x.jsonl")
    assert (result.run, result.traces) == (rich, 6)


@pytest.mark.parametrize("to", ["jsonl", "atif", "otlp", "inspect"])
def test_what_goes_out_comes_in_again(to: str, rich: str, home: Home, tmp_path: Path) -> None:
    result = export(rich, to, out=tmp_path / "out" / f"x.{to}", home=home)
    assert (result.run, result.format, result.traces) == (rich, to, 6)
    back = import_logs(result.files, home=home, run="back", redact="none")
    assert back.format == to
    assert back.skipped == []
    assert all_of(home, "back") == all_of(home, rich)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [f"x.{to}"], "no draft is left"
    assert json.loads(result.to_json())["lost"] == result.lost


def test_our_own_lines_lose_nothing_at_all(rich: str, home: Home, tmp_path: Path) -> None:
    first = export(rich, "jsonl", out=tmp_path / "1.jsonl", home=home)
    import_logs(first.files, home=home, run="back", redact="none")
    export("back", "jsonl", out=tmp_path / "2.jsonl", home=home)
    assert first.lost == {}

    def bodies(path: Path) -> list[Any]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line.pop("trace_id", None)
            line.setdefault("version", "1")  # of a label; whether a default is written down says nothing
            for field in ("trace_id", "episode", "origin"):
                line.get("head", {}).pop(field, None)
        return sorted(lines, key=lambda x: json.dumps(x, sort_keys=True))

    assert bodies(tmp_path / "1.jsonl") == bodies(tmp_path / "2.jsonl")


@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_tables(to: str, rich: str, home: Home, tmp_path: Path) -> None:
    result = export(rich, to, out=tmp_path / "tables", home=home)
    assert [Path(f).name for f in result.files] == [f"{n}.{to}" for n in ("episodes", "spans", "texts", "labels")]
    rows = {Path(f).stem: _rows(Path(f)) for f in result.files}
    for name, found in rows.items():
        assert len(found) == sql(f"SELECT count(*) AS n FROM {name}", runs=[rich], home=home).records[0]["n"], name
    assert {r["task"] for r in rows["episodes"]} == {"0", "1", "made", *_task_of_session(home)}


def _task_of_session(home: Home) -> set[str]:
    return {
        e.head.task for e in home.resolve("rich").entries if e.head.origin and e.head.origin.format == "claude-code"
    }


def _rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return found
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_no_cell_of_a_csv_is_a_formula(logs: Any, home: Home, tmp_path: Path) -> None:
    evil = ('=HYPERLINK("x")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1")
    for i, word in enumerate(evil):
        call = {"id": "c", "type": "function", "function": {"name": word, "arguments": word}}
        run = logs.turns(word, 0)
        run["traj"][1]["tool_calls"] = [call]
        logs.put(f"{i}.json", [run])
    import_logs(logs.root, home=home, run="evil", redact="none")
    result = export("evil", "csv", out=tmp_path / "tables", home=home)
    cells = [v for f in result.files for row in _rows(Path(f)) for v in row.values()]
    assert len(cells) > 100
    assert not [c for c in cells if c[:1] in "=+-@\t\r\n" and c]
    tasks = {row["task"] for row in _rows(Path(result.files[0]))}
    assert tasks == {f"'{word}" for word in evil}
    requested = {row["requested"] for row in _rows(Path(result.files[1]))}
    assert requested == {"", *(f"'{word}" for word in evil)}


@pytest.mark.parametrize("to", FORMATS)
def test_some_traces_only(to: str, rich: str, home: Home, tmp_path: Path) -> None:
    chosen = [e.head for e in home.resolve(rich).entries if e.head.task == "1"]
    names = [chosen[0].trace_id, chosen[1].trace_id[:20], chosen[0].trace_id]
    result = export(rich, to, traces=names, out=tmp_path / "some", home=home)
    assert result.traces == 2
    if to not in ("parquet", "csv"):
        assert import_logs(result.files, home=home, run="some", redact="none").traces == 2
        return
    episodes, spans, texts, labels = (_rows(Path(f)) for f in result.files)
    ids = {h.trace_id for h in chosen}
    assert {r["trace_id"] for r in episodes} == {r["trace_id"] for r in spans} == ids
    assert labels == []
    whole = [t for t in home.resolve(rich).traces() if t.head.trace_id in ids]
    assert {r["ref"] for r in texts} == {ref for t in whole for ref in t.texts}


@pytest.mark.parametrize("to", FORMATS)
def test_nothing_that_exists_is_overwritten(to: str, rich: str, home: Home, tmp_path: Path) -> None:
    tables = to in ("parquet", "csv")
    for target in (tmp_path / "file", tmp_path / "folder"):
        if target.name == "file":
            target.write_text("precious")
        else:
            target.mkdir()
            (target / "precious").write_text("precious")
        with pytest.raises(BadUsage, match="choose another"):
            export(rich, to, out=target, home=home)
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "precious").read_text() == "precious"
    assert sorted(
        p.name for p in tmp_path.rglob("*") if p.is_file() and "home" not in p.parts and "logs" not in p.parts
    ) == [
        "file",
        "precious",
    ]
    (tmp_path / "empty").mkdir()
    if tables:
        assert export(rich, to, out=tmp_path / "empty", home=home).traces == 6


def test_names_by_default(rich: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [export(rich, to, home=home).files[0] for to in FORMATS]
    assert made == [
        "rich-parquet/episodes.parquet",
        "rich-csv/episodes.csv",
        "rich.jsonl",
        "rich.atif.jsonl",
        "rich.otlp.jsonl",
        "rich.eval",
    ]


def test_what_cannot_be_exported(rich: str, home: Home, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="did you mean 'parquet'"):
        export(rich, "parkett", home=home)
    with pytest.raises(NotFound, match="no run named"):
        export("none", "csv", home=home)
    with pytest.raises(NotFound, match="no trace 'ffff'"):
        export(rich, "jsonl", traces=["ffff"], out=tmp_path / "x", home=home)
    assert not (tmp_path / "x").exists()


def test_forgotten_traces_stay_behind(rich: str, home: Home, tmp_path: Path) -> None:
    retain([rich], keep_all="0s", sample=0.0, apply=True, home=home)
    gone = [e for e in home.resolve(rich).entries if e.forgotten]
    assert len(gone) == 3
    assert export(rich, "jsonl", out=tmp_path / "x.jsonl", home=home).traces == 3
    with pytest.raises(NotFound, match="no longer kept"):
        export(rich, "jsonl", traces=[gone[0].head.trace_id], out=tmp_path / "y.jsonl", home=home)
    assert sorted(p.name for p in tmp_path.glob("*.jsonl*")) == ["x.jsonl"]
    tables = export(rich, "parquet", out=tmp_path / "tables", home=home)
    assert [r["task"] for r in _rows(Path(tables.files[0])) if r["forgotten"]] == [e.head.task for e in gone]


def test_a_sealed_run_without_its_key_leaves_no_half_of_a_table(
    rich: str, home: Home, logs: Any, tmp_path: Path
) -> None:
    from ethogram.errors import Sealed

    home.keys.new()
    import_logs(logs.root, home=home, run="sealed", redact="none")
    key = home.keys.active()
    assert key is not None
    home.keys.drop(key)
    with pytest.raises(Sealed):
        export("sealed", "csv", out=tmp_path / "tables", home=home)
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize("to", FORMATS)
def test_a_run_without_a_trace(to: str, home: Home, tmp_path: Path) -> None:
    home.create("bare", "import")
    result = export("bare", to, out=tmp_path / "bare", home=home)
    assert result.traces == 0
    assert all(Path(f).is_file() for f in result.files)
