"""A home in an object store: everything that a folder can do, against a real S3 endpoint on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, Locked
from ethogram.questions.home.exports import export
from ethogram.questions.home.maintenance import check_health, verify
from ethogram.questions.home.queries import sql
from ethogram.questions.home.runs import rm, runs, show
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.traces import trace
from ethogram.store import (
    Home,
    Keyring,
    Lake,
    Limits,
    Redactor,
    RetentionRule,
    open_home,
    retain_run,
    sweep,
    verify_run,
)
from ethogram.traces import Scored

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture
def lake(s3_address: str, keys: Keyring) -> Home:
    return open_home(s3_address, keys)


def test_write_query_verify(lake: Home, plain: Redactor, write_trace: Any, s3_address: str, keys: Keyring) -> None:
    assert lake.names() == []
    run = lake.create("run", "import")
    with pytest.raises(BadUsage, match="exists already in s3://lake/"):
        lake.create("run", "import")
    with run.writer(plain, window=None) as a, run.writer(plain, window=None, limits=Limits(spill_spans=4)) as b:
        write_trace(a, "one", steps=2, label="why one")
        a.commit()
        write_trace(b, "one", steps=5)  # the same episode, too late
        write_trace(b, "two", steps=3)
        b.commit()
        with pytest.raises(Locked):
            retain_run(run, RetentionRule(keep_all_s=0), dry_run=False)
    again = open_home(s3_address, keys).resolve("latest")
    assert [len(t.spans) for t in again.traces()] == [5, 7]
    assert [m.role for m in next(again.traces()).messages][:2] == ["system", "user"]
    found = verify_run(again)
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 2)
    table = Lake([again])
    assert table.sql("SELECT count(*) AS n FROM spans").to_pylist() == [{"n": 12}]
    assert table.columns("kind").num_rows == 12
    joined = "SELECT count(*) AS n FROM spans s JOIN texts t ON t.ref = s.result AND t.run = s.run"
    assert table.sql(joined).to_pylist() == [{"n": 5}]
    assert table.sql("SELECT count(*) AS n FROM messages WHERE role = 'tool'").to_pylist() == [{"n": 5}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{base}/redaction.key')",
        "SELECT * FROM read_parquet('{base}/runs/run/*.parquet')",
        "SELECT * FROM spans, read_text('/etc/passwd')",
    ],
)
def test_a_query_reads_the_views_and_nothing_else(lake: Home, plain: Redactor, write_trace: Any, query: str) -> None:
    lake.redaction_key()
    run = lake.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one", steps=1)
    base = lake.files.url("")
    with pytest.raises(BadUsage, match="and nothing else: no file"):
        Lake(lake.runs()).sql(query.format(base=base))


def test_sealed_retained_swept(lake: Home, keys: Keyring, plain: Redactor, write_trace: Any) -> None:
    keys.new()
    run = lake.create("run", "import")
    with run.writer(plain, window=None) as writer:
        for n in range(3):
            write_trace(writer, f"good {n}", outcome=Scored(1.0), words=f"words of good {n}")
        write_trace(writer, "bad", outcome=Scored(0.0), words="words of bad")
    texts = lake.run("run").standing.named("texts-")
    assert all(b"words of" not in lake.files.read(f"runs/run/{f.name}") for f in texts)
    assert Lake(lake.runs()).sql("SELECT count(*) AS n FROM texts WHERE body LIKE '%good 1%'").to_pylist()[0]["n"] > 3
    now = lake.run("run").entries[-1].at_ns + 10**11
    done = retain_run(lake.run("run"), RetentionRule(keep_all_s=1), dry_run=False, now_ns=now)
    assert len(done.forgotten) == 3
    found = verify_run(lake.run("run"))
    assert (found.damaged, found.leftovers, found.episodes) == ([], [], 4)
    assert not any(lake.files.exists(f"runs/run/{f.name}") for f in texts)
    assert "words of bad" in (next(lake.run("run").traces()).answer or "")
    lake.files.publish("runs/run/spans-dead-000000.parquet", b"left over")
    assert verify_run(lake.run("run")).leftovers == ["spans-dead-000000.parquet"]
    assert sweep(lake.run("run")) == ["spans-dead-000000.parquet"]


def test_damage_is_named(lake: Home, plain: Redactor, write_trace: Any) -> None:
    run = lake.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one", steps=1, label="why")
    for file in lake.run("run").standing.files:
        data = lake.files.read(f"runs/run/{file.name}")
        lake.files.publish(f"runs/run/{file.name}", data[:9] + bytes([data[9] ^ 1]) + data[10:])
        assert file.name in {p.where for p in verify_run(lake.run("run")).damaged}
        lake.files.delete(f"runs/run/{file.name}")
        assert file.name in {p.where for p in verify_run(lake.run("run")).damaged}
        lake.files.publish(f"runs/run/{file.name}", data)
    assert verify_run(lake.run("run")).ok


def test_every_verb_behind_the_command(lake: Home, tmp_path: Path) -> None:
    """Import, look, query, verify, export, remove."""
    log = tmp_path / "results.json"
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day to you"}]
    log.write_text(json.dumps([{"task_id": n, "trial": 0, "reward": 1.0, "info": {}, "traj": talk} for n in range(3)]))
    done = import_logs(log, home=lake, run="logs", format="tau-bench")
    assert (done.traces, done.skipped) == (3, [])
    assert import_logs(log, home=lake, run="logs", format="tau-bench").unchanged == 3
    assert [r.run for r in runs(home=lake).runs] == ["logs"]
    summary = show("logs", home=lake)
    assert (summary.episodes, summary.scored) == (3, 3)
    tree = trace(summary.traces[0].trace_id, home=lake)
    assert tree.of == len(tree.spans) > 0
    assert sql("SELECT count(*) AS n FROM episodes", home=lake).records == [{"n": 3}]
    assert verify(home=lake).ok
    assert check_health(home=lake).checks
    for format in ("jsonl", "csv", "parquet"):
        out = export("logs", format, out=tmp_path / f"out-{format}", home=lake)
        assert out.traces == 3
        assert all(Path(f).stat().st_size > 0 for f in out.files)
    assert rm("logs", home=lake).episodes == 3
    assert lake.names() == []


def test_the_command_itself(s3_address: str, tmp_path: Path) -> None:
    """A process of its own, with the home from the environment: no warning, no hang, no secret on the screen."""
    log = tmp_path / "log.json"
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good day"}]
    log.write_text(json.dumps([{"task_id": 1, "trial": 0, "reward": 1.0, "info": {}, "traj": talk}]))
    environment = {**os.environ, "ETHOGRAM_HOME": s3_address, "XDG_CONFIG_HOME": str(tmp_path)}
    for arguments, told in (
        (["import", str(log), "--format", "tau-bench", "--run", "r", "--json"], '"traces":1'),
        (["sql", "SELECT count(*) AS n FROM spans", "--json"], '"n":'),
        (["verify", "--json"], '"ok":true'),
        (["runs"], "s3://lake/"),
    ):
        out = subprocess.run(
            [sys.executable, "-m", "ethogram.cli.main", *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
        )
        assert out.returncode == 0, out.stderr
        assert told.replace(" ", "") in (out.stdout + out.stderr).replace(" ", "") or arguments == ["runs"]
        assert "SECRET-OF-TEST" not in out.stdout + out.stderr
        assert "Warning" not in out.stderr
