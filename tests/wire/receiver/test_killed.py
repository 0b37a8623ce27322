"""A server that is killed in mid-ingest loses nothing that it acknowledged, and stores nothing twice."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.memory import read_traces
from ethogram.capture.source import file_source
from ethogram.questions.home.exports import export
from ethogram.questions.home.queries import sql
from ethogram.questions.logs.imports import import_logs
from ethogram.store import open_home
from ethogram.store.verify import verify_run
from ethogram.wire.receiver.writing import episode_of

KEY = "sk-proj-" + "9hTq2LmZ7vXc4RbN1wYk8sDf5gJp3aEu6oKi0tQxWzBnMrVy"


def started(home: Path, *more: str) -> tuple[subprocess.Popen[str], int]:
    command = [str(Path(sys.executable).with_name("ethogram")), "serve", "--port", "0", "--home", str(home), *more]
    log = (home.parent / "log").open("a")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    log.close()
    assert process.stdout is not None
    return process, int(process.stdout.readline().strip().rpartition(":")[2])


def ended(process: subprocess.Popen[str], kind: signal.Signals) -> int:
    process.send_signal(kind)
    code = process.wait(60)
    process.communicate()
    return code


class Sender(threading.Thread):
    """Sends traces of one agent each until the server is gone; knows which spans were acknowledged."""

    def __init__(self, number: int, port: int, wire: Any) -> None:
        super().__init__()
        self.number, self.port, self.wire = number, port, wire
        self.acknowledged: list[tuple[str, str]] = []

    def run(self) -> None:
        for i in range(100_000):
            spans = self.wire.agent(16, f"{self.number:08x}{i + 1:024x}")
            for part in (spans[:2], spans[2:]):
                try:
                    reply = self.wire.post(self.port, gzip.compress(self.wire.protobuf(*part)), content_encoding="gzip")
                except OSError:
                    return
                if reply.status == 200:
                    self.acknowledged += [(one["traceId"], one["spanId"]) for one in part]


@pytest.mark.parametrize("settle", ["0", "600"], ids=["while it writes", "while all waits"])
def test_nothing_acknowledged_is_lost_by_sigkill(tmp_path: Path, wire: Any, settle: str) -> None:
    home = tmp_path / "home"
    acknowledged: list[tuple[str, str]] = []
    for life in range(2):
        process, port = started(home, "--store-after", settle)
        senders = [Sender(10 * life + n + 1, port, wire) for n in range(3)]
        for sender in senders:
            sender.start()
        time.sleep(1.6 if settle == "0" else 0.7)
        assert ended(process, signal.SIGKILL) == -signal.SIGKILL
        for sender in senders:
            sender.join()
            acknowledged += sender.acknowledged
    assert len(acknowledged) > 100
    process, _ = started(home, "--store-after", settle)
    assert ended(process, signal.SIGTERM) == 0

    run = open_home(str(home)).resolve("live")
    stored = Counter((s.span_id, t.head.episode) for t in run.traces() for s in t.spans)
    assert max(stored.values()) == 1, "nothing is stored twice"
    lost = [one for one in acknowledged if (one[1], episode_of(one[0])) not in stored]
    assert lost == []
    by_size = Counter(len(t.spans) for t in run.traces())
    assert by_size.keys() <= {2, 4}, "a request is there whole or not at all"
    checked = verify_run(run)
    assert (checked.damaged, checked.unproven) == ([], [])
    assert not list((home / "runs/live").glob("spool/*.jsonl"))
    rows = sql("SELECT count(*) AS n FROM spans WHERE kind = 'tool'", runs=["live"], home=str(home)).records
    assert rows[0]["n"] >= sum(span.endswith("12") for _, span in acknowledged)

    export("live", to="otlp", out=tmp_path / "out.jsonl", home=str(home))
    again, report = read_traces(file_source(tmp_path / "out.jsonl", "out.jsonl"))
    assert not report.skipped
    assert Counter(len(t.spans) for t in again) == by_size


def test_live_and_imported_spans_of_one_trace_have_one_episode(tmp_path: Path, wire: Any, opened: Any) -> None:
    with opened() as receiver:
        receiver.send(*wire.agent())
    (tmp_path / "spans.pb").write_bytes(wire.protobuf(*wire.agent()))
    import_logs(tmp_path / "spans.pb", home=str(tmp_path / "other"), run="file")
    (imported,) = open_home(str(tmp_path / "other")).resolve("file").entries
    assert imported.head.episode == receiver.run.entries[0].head.episode


def test_planted_secrets_are_nowhere(tmp_path: Path, wire: Any) -> None:
    """Wherever a secret stands in a request, it is in no file of the home, the spool included, and in no log."""
    home = tmp_path / "home"
    card, mail, password = 4111111111111111, "ada.lovelace@example.org", "hunter2-Xk9!q"
    told = wire.span(
        1, f"root {KEY}", input__value=f"key {KEY}", note=[f"mail {mail}", KEY], db__password=password, card=card
    )
    told["status"] = {"code": 2, "message": f"bad key {KEY}"}
    told["events"] = [{"name": f"e {KEY}", "attributes": [{"key": KEY, "value": {"stringValue": mail}}]}]
    told["links"] = [{"traceId": wire.T2, "attributes": [{"key": "x", "value": {"stringValue": KEY}}]}]
    document = wire.document(told, wire.span(2, parent=1) | {"spanId": KEY}, service=f"shop {KEY}")
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{
        "traceId": wire.T1, "spanId": f"{1:016x}", "eventName": "gen_ai.user.message", "body": {"stringValue": KEY},
    }]}]}]}  # fmt: skip
    process, port = started(home)
    try:
        kind = {"content_type": "application/json", "authorization": f"Bearer {KEY}"}
        assert wire.post(port, json.dumps(document).encode(), **kind).status == 200
        assert wire.post(port, json.dumps(logs).encode(), "/v1/logs", **kind).status == 200
        assert wire.post(port, f"{{ {KEY}".encode(), f"/v1/traces?key={KEY}", **kind).status == 400
        assert wire.post(port, b"", f"/{KEY}", **kind).status == 404
        spooled = _bytes_below(home)
        assert b'["span","' in spooled, "the spans wait in the spool"
    finally:
        assert ended(process, signal.SIGKILL) == -9
    assert ended(started(home)[0], signal.SIGTERM) == 0
    run = open_home(str(home)).resolve("live")
    (trace,) = run.traces()
    words = "\n".join(trace.texts[ref] for span in trace.spans for ref in span.refs)
    stored = _bytes_below(home) + words.encode() + repr(trace.head).encode() + (tmp_path / "log").read_bytes()
    for secret in (KEY, mail, password, str(card)):
        assert secret.encode() not in spooled
        assert secret.encode() not in stored
    assert "[REDACTED:" in words


def _bytes_below(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file() and os.access(p, os.R_OK))
