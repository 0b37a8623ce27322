"""Care: verify, retain, keys and the doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ethogram import __version__
from ethogram.errors import BadUsage, NotFound, Sealed
from ethogram.questions.home.maintenance import (
    check_health,
    drop_key,
    list_keys,
    new_key,
    retain,
    rotate_keys,
    verify,
)
from ethogram.questions.home.queries import sql
from ethogram.questions.home.runs import load
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.traces import trace as show_trace
from ethogram.store import Home, Keyring
from ethogram.store.files import LocalFiles


def folder(home: Home, run: str) -> Path:
    assert isinstance(home.files, LocalFiles)
    return Path(home.files.root) / "runs" / run


# --- verify --------------------------------------------------------------------------------------------------------


def test_a_whole_run_verifies(bells: str, home: Home) -> None:
    told: list[int] = []
    result = verify(home=home, progress=told.append)
    assert result.ok
    (found,) = result.runs
    assert (found.run, found.episodes, found.spans) == ("bells", 4, 16)
    assert found.texts > 0
    assert found.damaged == found.leftovers == []
    assert told
    assert list(result.to_df()["damaged"]) == [0]
    assert json.loads(result.to_json())["ok"] is True
    assert verify([bells, bells], home=home).ok
    assert verify(home=Home(LocalFiles(folder(home, "x") / "none"), home.keys)).runs == []


@pytest.mark.parametrize("pattern", ["ledger/*", "spans-*", "texts-*", "sources/*", "run.json"])
def test_any_changed_byte_is_named(pattern: str, bells: str, home: Home) -> None:
    (path,) = folder(home, bells).glob(pattern)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    result = verify(home=home)
    assert not result.ok
    assert any(Path(p.where).name in (path.name, "run.json", bells) for p in result.runs[0].damaged), result.runs[
        0
    ].damaged
    assert result.rows()[0]["damaged"] >= 1


def test_a_missing_file_is_named_and_a_damaged_run_is_not_swept(bells: str, home: Home) -> None:
    (path,) = folder(home, bells).glob("texts-*")
    path.unlink()
    (folder(home, bells) / "spans-stranger-000000.parquet").write_bytes(b"left over")
    result = verify(home=home, sweep=True)
    assert not result.ok
    assert result.swept == []
    assert any(path.name in p.where for p in result.runs[0].damaged)


# --- retain --------------------------------------------------------------------------------------------------------


def test_retention_is_a_dry_run_first(bells: str, home: Home) -> None:
    plan = retain(keep_all="0s", sample=0.0, home=home)
    assert (plan.dry_run, plan.kept, plan.forgotten) == (True, 1, 3)
    assert [d.why for d in plan.runs[0].forgotten] == ["older than 0 s, not a failure, not in the sample of 0%"] * 3
    assert len(plan.to_df()) == 3
    assert len(list(load(bells, home=home).traces())) == 4, "nothing happened"
    done = retain(keep_all="0s", sample=0.0, apply=True, home=home)
    assert (done.dry_run, done.kept, done.forgotten) == (False, 1, 3)
    assert json.loads(done.to_json())["runs"][0]["bytes_after"] < plan.runs[0].bytes_before
    (left,) = load(bells, home=home).traces()
    assert left.head.task == "1"
    assert left.messages[0].text == "Ring the bell."
    assert sql("SELECT count(*) AS n, sum(spans) AS s FROM episodes", home=home).records == [{"n": 4, "s": 16}]
    assert sql("SELECT count(*) AS n FROM spans", home=home).records == [{"n": 4}]
    assert verify(home=home).ok
    again = retain(keep_all="0s", sample=0.0, apply=True, home=home)
    assert (again.kept, again.forgotten) == (1, 0)


@pytest.mark.parametrize(
    ("rule", "forgotten"),
    [
        ({}, 0),
        ({"keep_all": "0s", "sample": 1.0}, 0),
        ({"keep_all": "0s", "sample": 0.0, "keep_failures": False}, 4),
        ({"keep_all": "1h", "sample": 0.0}, 0),
    ],
)
def test_rules(rule: dict[str, Any], forgotten: int, bells: str, home: Home) -> None:
    assert retain([bells], home=home, **rule).forgotten == forgotten


@pytest.mark.parametrize("rule", [{"keep_all": "soon"}, {"keep_all": "-1d"}, {"sample": 5}, {"sample": -0.1}])
def test_rules_that_make_no_sense(rule: dict[str, Any], bells: str, home: Home) -> None:
    with pytest.raises(BadUsage):
        retain([bells], home=home, apply=True, **rule)
    assert len(list(load(bells, home=home).traces())) == 4


def test_a_forgotten_log_is_not_imported_again(bells: str, home: Home, logs: Any) -> None:
    retain(keep_all="0s", sample=0.0, apply=True, home=home)
    again = import_logs(logs.root / "bells.json", home=home, run=bells, redact="none")
    assert (again.traces, again.unchanged) == (0, 4)


# --- keys ----------------------------------------------------------------------------------------------------------


def test_keys_from_the_first_to_forgetting(bells: str, home: Home, logs: Any) -> None:
    assert (list_keys(home=home).keys, list_keys(home=home).active) == ([], None)
    first = new_key(home=home).active
    assert first is not None
    import_logs(logs.put("s.jsonl", logs.chat("sealed words", "ok")), home=home, run="sealed", redact="none")
    assert list_keys(home=home).sealed_runs == {first: ["sealed"]}
    rotated = rotate_keys(home=home)
    assert rotated.active not in (None, first)
    assert rotated.sealed_runs == {rotated.active: ["sealed"]}
    drop_key(first, home=home)
    trace = home.resolve("sealed").entries[0].head.trace_id
    assert show_trace(trace, home=home).spans[0].preview == "sealed words"
    drop_key(str(rotated.active), home=home)
    with pytest.raises(Sealed):
        show_trace(trace, home=home)
    assert verify(home=home).ok, "what is sealed away is not damaged"
    with pytest.raises(NotFound):
        drop_key("nonsense", home=home)
    assert json.loads(list_keys(home=home).to_json())["keys"] == []


# --- the doctor ----------------------------------------------------------------------------------------------------


def test_a_healthy_machine(bells: str, home: Home) -> None:
    health = check_health(home=home)
    checks = {c.name: c for c in health.checks}
    assert checks["ethogram"].found == __version__
    assert checks["home"].found.endswith("1 run")
    assert all(checks[name].ok for name in ("python", "pyarrow", "duckdb", "home"))
    assert (checks["keys"].ok, checks["keys"].advice) == (None, "ethogram keys new")
    assert health.ok == all(c.ok is not False for c in health.checks)
    assert len(health.to_df()) == len(checks)
    assert json.loads(health.to_json())["checks"]


def test_a_home_that_cannot_be_used_is_advised_on() -> None:
    health = check_health(home="ftp://nowhere/at/all")
    (found,) = [c for c in health.checks if c.name == "home"]
    assert (health.ok, found.ok) == (False, False)
    assert found.advice is not None
    assert "ETHOGRAM_HOME" in found.advice


def test_a_broken_key_file_is_said(tmp_path: Path, home: Home) -> None:
    (tmp_path / "keys.json").write_text("{broken")
    broken = Home(home.files, Keyring(tmp_path / "keys.json", {}))
    (found,) = [c for c in check_health(home=broken).checks if c.name == "keys"]
    assert found.ok is False
    assert "keys.json" in found.found


def test_where_there_is_no_key_there_is_nothing_to_rotate(home: Home) -> None:
    with pytest.raises(BadUsage, match=r"nothing to rotate: no key is in .*keys\.json"):
        rotate_keys(home=home)
    assert list_keys(home=home).keys == []
