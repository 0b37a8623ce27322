"""export, verify, retain, keys, redact, doctor, rm: what is done to runs, and what is kept safe."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from ethogram.store.ledger_file import unpack

MAIL = "ada.lovelace@example.org"
KEY = "9hTq2LmZ7vXc4RbN1wYk8sDf5gJp3aEu6oKi0tQxWzBnMrVy"


def data_files(home: Path, start: str) -> list[Path]:
    return sorted((home / "runs" / "desk").glob(f"{start}-*.parquet"))


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "atif", "otlp", "inspect"])
def test_export(document, lake, form):
    found = document("export", "desk", "--to", form, "-o", f"out-{form}")
    assert (found["run"], found["format"], found["traces"]) == ("desk", form, 4)
    for file in found["files"]:
        assert Path(file).stat().st_size > 0


def test_export_prints_what_it_wrote_and_never_overwrites(call, lake):
    said = call("export", "desk", "--to", "csv", "--out", "tables")
    assert said.code == 0
    assert "wrote tables/episodes.csv" in said.out
    with Path("tables/episodes.csv").open() as stream:
        assert [row["score"] for row in csv.DictReader(stream)] == ["1.0", "1.0", "1.0", "0.0"]
    again = call("export", "desk", "--to", "csv", "--out", "tables")
    assert again.code == 64
    assert "choose another folder" in again.err
    Path("mine.jsonl").write_text("mine")
    assert call("export", "desk", "--to", "jsonl", "-o", "mine.jsonl").code == 64
    assert Path("mine.jsonl").read_text() == "mine"


def test_export_of_one_trace(document, lake):
    wanted = document("show")["traces"][0]["trace_id"]
    found = document("export", "desk", "--to", "jsonl", "--trace", wanted, "-o", "one.jsonl")
    assert found["traces"] == 1
    heads = [line for line in Path("one.jsonl").read_text().splitlines() if '"type":"trace"' in line]
    assert len(heads) == 1
    assert wanted in heads[0]


def test_an_export_comes_back_as_it_was(document, lake):
    document("export", "desk", "--to", "jsonl", "-o", "all.jsonl")
    back = document("import", "all.jsonl", "--run", "back")
    assert (back["format"], back["traces"], back["spans"], back["lost"]) == ("jsonl", 4, 16, {})
    query = "SELECT task, attempt, score, spans, steps, errors FROM episodes ORDER BY task, attempt"
    there, here = (document("sql", query, "--run", run)["records"] for run in ("desk", "back"))
    assert there == here


def test_verify_finds_nothing_then_names_the_damage(call, document, lake, home):
    said = call("verify")
    assert said.code == 0
    assert said.out.startswith("NO DAMAGE  1 run\n")
    sound = document("verify", "desk")
    assert sound["ok"] is True
    assert [(r["episodes"], r["spans"], r["damaged"]) for r in sound["runs"]] == [(4, 16, [])]
    file = data_files(home, "spans")[0]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    said = call("verify", "desk")
    assert said.code == 1
    assert said.out.startswith("DAMAGED  1 problem\n")
    assert f"damaged: desk/{file.name}" in said.out
    broken = document("verify", code=1)
    assert broken["ok"] is False
    assert broken["runs"][0]["damaged"][0]["where"] == file.name


def test_verify_sweeps_what_nobody_committed(document, lake, home):
    left = home / "runs" / "desk" / "spans-dead-000000.parquet"
    left.write_bytes(b"half a file")
    assert document("verify")["runs"][0]["leftovers"] == [left.name]
    assert document("verify", "--sweep")["swept"] == [f"desk/{left.name}"]
    assert not left.exists()
    assert document("verify")["runs"][0]["leftovers"] == []


def test_retain_is_a_dry_run_until_told(call, document, lake):
    plan = document("retain", "desk", "--keep-all", "0s", "--sample", "0%")
    assert (plan["dry_run"], plan["kept"], plan["forgotten"]) == (True, 1, 3)
    assert "this was a dry run" in call("retain", "--keep-all", "0s", "--sample", "0").out
    assert document("show")["forgotten"] == 0
    done = document("retain", "desk", "--keep-all", "0s", "--sample", "0%", "--apply")
    assert (done["dry_run"], done["kept"], done["forgotten"]) == (False, 1, 3)
    assert done["runs"][0]["bytes_after"] < done["runs"][0]["bytes_before"]
    shown = document("show")
    assert (shown["episodes"], shown["scored"], shown["forgotten"]) == (4, 4, 3)
    assert document("verify")["ok"] is True
    assert document("retain")["kept"] == 1  # by default everything young stays
    gone = next(t for t in shown["traces"] if t["forgotten"])
    said = call("trace", gone["trace_id"])
    assert said.code == 64
    assert "no longer kept" in said.err


def test_keys_seal_rotate_and_forget(call, document, log, home):
    assert document("keys")["keys"] == []
    assert "no keys in" in call("keys").out
    first = document("keys", "new")["active"]
    document("import", log, "--run", "desk")
    assert document("show")["sealed"] is True
    assert document("keys", "list")["sealed_runs"] == {first: ["desk"]}
    second = document("keys", "rotate")["active"]
    assert second != first
    assert document("keys")["sealed_runs"] == {second: ["desk"]}
    assert document("sql", "SELECT count(*) AS n FROM texts WHERE body LIKE '%order%'")["records"][0]["n"] > 0
    table = call("keys").out
    assert f"{second}  active" in table
    document("keys", "drop", second, "--yes")
    said = call("sql", "SELECT body FROM texts")
    assert said.code == 64
    assert second in said.err
    assert document("sql", "SELECT count(*) AS n FROM spans")["records"] == [{"n": 16}]
    assert document("verify")["runs"][0]["sealed_away"] >= 1


def test_dropping_a_key_asks_first(shell, document, env):
    key = document("keys", "new")["active"]
    said = shell(f"ethogram keys drop {key}", stdin="n\n")
    assert said.code == 130
    assert "for ever?" in said.err
    assert document("keys")["keys"] == [key]
    assert shell(f"ethogram keys drop {key}", stdin="y\n").code == 0
    assert document("keys")["keys"] == []


def test_redact_shows_kinds_and_places_and_no_secret(call, document, log, home):
    found = document("redact", log, "--pattern", "order=order [0-9]+")
    kinds = {f["kind"] for f in found["found"]}
    assert {"email", "order"} < kinds
    assert found["texts"] > 0
    assert KEY not in json.dumps(found)
    said = call("redact", log)
    assert said.code == 0
    assert "nothing was stored" in said.out
    assert MAIL not in said.out
    assert KEY not in said.out
    assert not (home / "runs").exists()


def test_marks_are_printed_as_they_are(call, log):
    assert "[REDACTED:email:" in call("redact", log).out


def test_nothing_secret_reaches_the_disk(document, lake, home, call):
    for body in document("sql", "SELECT body FROM texts", "--limit", "0")["records"]:
        assert MAIL not in body["body"]
        assert KEY not in body["body"]
    for file in home.rglob("*"):
        if file.is_file():
            data = unpack(file.name, file.read_bytes())
            assert MAIL.encode() not in data
            assert KEY.encode() not in data
    trace = document("show")["traces"][0]["trace_id"]
    assert MAIL not in call("trace", trace).out


def test_redaction_can_be_turned_off_for_public_data(document, log):
    found = document("import", log, "--run", "open", "--redact", "none")
    assert found["redactions"] == {}
    query = f"SELECT count(*) AS n FROM texts WHERE contains(body, '{MAIL}')"
    assert document("sql", query, "--run", "open")["records"][0]["n"] > 0


def test_doctor(call, document, lake, monkeypatch):
    said = call("doctor")
    assert said.code == 0
    assert re.match(r"OK  \d+ checks\n", said.out)
    assert "✓ ethogram" in said.out
    found = document("doctor")
    assert found["ok"] is True
    assert {"python", "pyarrow", "duckdb", "home", "disk", "keys"} <= {c["name"] for c in found["checks"]}
    Path("bad-keys.json").write_text("not json")
    monkeypatch.setenv("ETHOGRAM_KEYS", "bad-keys.json")
    sick = document("doctor", code=1)
    assert sick["ok"] is False
    assert call("doctor").out.startswith(f"1 of {len(sick['checks'])} checks failed\n")
    assert [c["name"] for c in sick["checks"] if c["ok"] is False] == ["keys"]


def test_rm_asks(shell, document, lake):
    for stdin in ("n\n", "\n"):
        said = shell("ethogram rm desk", stdin=stdin)
        assert said.code == 130
        assert said.out.strip() == ""
    assert document("runs")["runs"][0]["run"] == "desk"
    assert shell("ethogram rm desk", stdin="y\n").code == 0
    assert document("runs")["runs"] == []


def test_rm_where_nobody_can_answer_names_the_option(shell, document, lake):
    said = shell("ethogram rm desk < /dev/null")
    assert said.code == 64
    assert "--yes" in said.err
    assert document("runs")["runs"][0]["run"] == "desk"


def test_rm_with_yes(call, document, lake, home):
    found = document("rm", "desk", "--yes")
    assert (found["run"], found["episodes"]) == ("desk", 4)
    assert found["bytes"] > 0
    assert not (home / "runs" / "desk").exists()
    said = call("rm", "desk", "--yes")
    assert said.code == 64
