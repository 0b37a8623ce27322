"""Credentials pass through the gateway and stay nowhere: not in the home, not in the log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake, SourceReport
from ethogram.store import Policy, Redactor, RunWriter
from ethogram.store.files import LocalFiles
from ethogram.store.ledger_file import unpack
from ethogram.traces import EpisodeId, Origin, trace_id
from ethogram.wire.recorder import Recorder

KEYS = {
    "header": "sk-proj-4fJk29dLmQ8zXv71nRtYbW3cHs6pUe0aGiKo5TlM",
    "x_api_key": "sk-ant-api03-9QwErTyUiOpAsDfGhJkLzXcVbNm1234567890",
    "query": "AIzaSyD4fJk29dLmQ8zXv71nRtYbW3cHs6pUe0a",
    "cookie": "s3ss10n-Zx81Kq02Lm77Vb93",
    "body": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
}


def everything_stored(folder: Path) -> bytes:
    """Every byte of the home, unpacked where it is packed."""
    import pyarrow.parquet as parquet

    content = b""
    for path in folder.rglob("*"):
        if path.is_file():
            content += path.name.encode() + unpack(path.name, path.read_bytes())
            if path.suffix == ".parquet":
                content += repr(parquet.read_table(path).to_pylist()).encode()
    return content


@pytest.mark.parametrize("trouble", ["none", "error", "unreachable", "broken", "unknown path"])
def test_a_planted_key_is_nowhere(
    upstream: Any, gateway: Any, bodies: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: Any, trouble: str
):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # the test's own client, which writes addresses
    home = tmp_path / "home"
    writer = RunWriter(LocalFiles(home), "runs/r", Redactor(b"key of the test", Policy()))
    intake = Intake(lambda trace: writer.trace(trace), Origin("test"), SourceReport(source="test"))
    builder = TraceBuilder(intake, trace_id("test", "1"), EpisodeId("e"))
    joined = gateway.join(Recorder(builder))
    if trouble == "error":
        echoed = b'{"error": {"message": "bad key %s"}}' % KEYS["header"].encode()
        upstream.answer = lambda handler, seen: handler.whole(echoed, 401)
    elif trouble == "broken":
        upstream.answer = lambda handler, seen: handler.stream(bodies.chat_events()[:1], die=True)
    elif trouble == "unreachable":
        upstream.socket.close()
    path = "chat/completions" if trouble != "unknown path" else "embeddings"
    headers = {
        "authorization": f"Bearer {KEYS['header']}",
        "x-api-key": KEYS["x_api_key"],
        "api-key": KEYS["x_api_key"],
        "cookie": f"session={KEYS['cookie']}",
    }
    asked = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": f"my token is {KEYS['body']}"}],
        "api_key": KEYS["header"],
        "user": KEYS["body"],
    }
    address = f"{joined.variables()['OPENAI_BASE_URL']}/{path}?key={KEYS['query']}"
    try:
        httpx.post(address, json=asked, headers=headers)
    except httpx.RemoteProtocolError:
        assert trouble == "broken"
    joined.leave()
    builder.close()
    writer.close()
    if trouble != "unreachable":
        (seen,) = upstream.seen
        assert dict(seen.headers)["authorization"].endswith(KEYS["header"])
        assert KEYS["query"] in seen.path
    stored = everything_stored(home)
    printed = "".join(capfd.readouterr())
    logged = "".join(r.getMessage() + (r.exc_text or "") for r in caplog.records)
    assert trouble == "unknown path" or b"my token is" in stored
    for place, key in KEYS.items():
        assert key.encode() not in stored, place
        assert key not in printed, place
        assert key not in logged, place
