"""The demonstration: it tells its story in seconds, leaves a run that can be looked at, and shows no secret."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from ethogram.store.ledger_file import unpack

PLANTED = (
    "AKIAIOSFODNN7EXAMPLE",
    "4111 1111 1111 1111",
    "mara.lindqvist@example.org",
    "tomas.okafor@example.com",
    "ines.duarte@example.org",
    "s3a-Lamprey-88",
    "+1 202-555-0143",
)
ROOT = Path(__file__).parents[2]


def test_the_logs_are_what_the_script_writes():
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_demo_logs.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_logs_are_small_and_hold_what_is_planted():
    logs = sorted((files("ethogram") / "data" / "demo").iterdir(), key=lambda f: f.name)
    assert [log.name for log in logs] == ["coding-session.jsonl", "support-desk.json", "travel-agent.json"]
    text = "".join(log.read_text(encoding="utf-8") for log in logs)
    assert len(text.encode()) < 200_000
    for secret in PLANTED:
        assert secret in text


def test_the_story(call, document):
    said = call("demo")
    assert (said.code, said.err) == (0, "")
    for words in (
        "claude-code",
        "tau-bench",
        "otlp",
        "15 traces, 166 spans added",
        "15 episodes: 11 scored, 4 missing (infrastructure.rate_limit 1, unscored 3)",
        "tool find_bookings  ✗ error",
        "find_bookings      6       4",
        "The run is demo, in ",
        "ethogram rm demo",
    ):
        assert words in said.out, words
    for secret in PLANTED:
        assert secret not in said.out
    assert document("verify", "demo")["ok"] is True


def test_json(document):
    told = document("demo")
    assert (told["run"], told["report"]) == ("demo", "ethogram-demo.html")
    assert told["imported"]["formats"] == {"claude-code": 1, "otlp": 1, "tau-bench": 1}
    assert told["trace"]["score"] == 0
    assert told["answer"]["records"][0] == {"tool": "find_bookings", "calls": 6, "errors": 4}


def test_what_it_names_can_be_typed(document, shell):
    for line in document("demo")["next"]:
        said = shell(line, stdin="y\n")
        assert said.code == 0, (line, said)
    assert document("runs")["runs"] == []


def test_a_second_time_adds_nothing(document):
    first, second = document("demo"), document("demo")
    assert (second["run"], second["imported"]["traces"], second["imported"]["unchanged"]) == ("demo", 0, 15)
    assert first["shown"]["episodes"] == second["shown"]["episodes"] == 15


def test_a_run_of_yours_called_demo_is_left_alone(document, log):
    document("import", log, "--run", "demo")
    assert document("demo")["run"] == "demo-2"
    assert document("show", "demo")["episodes"] == 4


def test_another_home(document, shell, tmp_path):
    there = str(tmp_path / "else where")
    told = document("demo", "--home", there)
    assert told["home"] == there
    assert shell(told["next"][0]).code == 0
    assert document("runs")["runs"] == []


def test_no_secret_is_on_disk(document, home):
    document("demo")
    bodies = document("sql", "SELECT body FROM texts", "--limit", "0")["records"]
    assert len(bodies) > 100
    for secret in PLANTED:
        assert not any(secret in b["body"] for b in bodies)
        assert not any(secret.encode() in unpack(f.name, f.read_bytes()) for f in home.rglob("*") if f.is_file())


def test_equal_secrets_stay_equal(document):
    """The customer's address is one mark, and the address that the agent asked for is another."""
    document("demo")
    query = r"""SELECT regexp_extract(body, '\[REDACTED:email:[0-9a-f]{8}\]') AS mark, count(DISTINCT trace_id) AS n
    FROM messages WHERE role = 'user' GROUP BY mark HAVING mark <> '' ORDER BY n DESC"""
    marks = document("sql", query)["records"]
    assert len(marks) == 2
    assert marks[0]["n"] > 1


def test_logs_to_try_things_on(call, document):
    copied = document("demo", "--logs", "try")
    assert copied["folder"] == "try"
    assert all(Path(f).is_file() for f in copied["files"])
    assert document("import", "try", "--run", "mine")["traces"] == 15
    said = call("demo", "--logs", "try")
    assert said.code == 64
    assert "exists already" in said.err
    assert "wrote fresh/support-desk.json" in call("demo", "--logs", "fresh").out
