"""A home that an earlier version wrote (plain JSON lines, addresses as text) opens, is checked, grows and is compacted.

`old_home` was written by the version before segments were compressed: a run with a superseded trace, a batch, a revised
outcome and two writers, and a run that is sealed with the key below.
"""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import Home, Keyring, Lake, Redactor, Run, compact, rewrite, verify_run
from ethogram.store.files import LocalFiles
from ethogram.traces import Missing

KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def old(tmp_path: Path) -> Home:
    shutil.copytree(Path(__file__).parent / "old_home", tmp_path / "old")
    return Home(LocalFiles(tmp_path / "old"), Keyring(tmp_path / "no keys", {"ETHOGRAM_KEY": KEY}))


def contents(run: Run) -> dict[str, Any]:
    """All that a reader sees, order aside."""
    run.forget_cache()
    traces = {t.head.trace_id: (t.spans, dict(t.texts), sorted(map(str, t.labels)), t.outcome) for t in run.traces()}
    lake = Lake([run])
    views = ("episodes", "spans", "texts", "labels", "messages")
    tables = {view: lake.sql(f"SELECT * FROM {view} ORDER BY ALL").to_pylist() for view in views}
    columns = run.episodes(["cost_usd", "steps"])
    figures = sorted(map(str, zip(columns.value.tolist(), columns.figures["steps"].tolist(), strict=True)))
    return {"traces": traces, "tables": tables, "figures": figures}


def test_it_opens_and_is_whole(old: Home) -> None:
    for run in old.runs():
        found = verify_run(run)
        assert (found.damaged, found.leftovers, found.unproven) == ([], [], [])
    rows = Lake(old.runs()).sql("SELECT run, task, score, reason, spans FROM episodes ORDER BY ALL").to_pylist()
    assert [tuple(r.values()) for r in rows] == [
        ("plain", "grid", 0.0, None, None),
        ("plain", "grid", 1.0, None, None),
        ("plain", "grid", 1.0, None, None),
        ("plain", "grid", None, "cap.experiment", None),
        ("plain", "task", 0.25, None, 3),
        ("plain", "task", 1.0, None, 7),
        ("plain", "task", None, "infrastructure.timeout", 3),
        ("sealed", "task", 1.0, None, 3),
    ]
    counts = [
        Lake(old.runs()).sql(f"SELECT count(*) AS n FROM {v}").to_pylist() for v in ("spans", "texts", "messages")
    ]
    assert counts == [[{"n": 16}], [{"n": 58}], [{"n": 20}]]
    (hung,) = [t for t in old.run("plain").traces() if isinstance(t.outcome, Missing)]
    assert hung.outcome == Missing("infrastructure.timeout", "it hung for a long time")


@pytest.mark.parametrize("name", ["plain", "sealed"])
def test_compacting_and_rewriting_change_nothing(old: Home, name: str) -> None:
    run = old.run(name)
    before = contents(run)
    compact(run, few=0)
    assert contents(run) == before
    rewrite(run)
    after = contents(run)
    assert after["traces"] == before["traces"]
    assert after["tables"]["spans"] == before["tables"]["spans"]
    assert verify_run(run).ok
    assert not [n for n in run.files.names(f"{run.path}/ledger") if n.endswith(".jsonl")]


def test_it_grows(old: Home, plain: Redactor, write_trace: Any) -> None:
    run = old.run("plain")
    held = Lake([run]).sql("SELECT count(*) AS n FROM texts").to_pylist()[0]["n"]
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "four", steps=1, words="the words of one")
    run.forget_cache()
    assert len(run.entries) == 4
    added = Lake([run]).sql("SELECT count(*) AS n FROM texts").to_pylist()[0]["n"] - held
    assert added == 0  # the old segments hold all its texts
    before = contents(run)
    compact(run, few=0)
    assert contents(run) == before
    assert verify_run(run).ok
