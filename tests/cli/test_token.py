"""`ethogram token`, and servers that need one."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

COMMAND = Path(sys.executable).with_name("ethogram")
TOKEN = re.compile(r"ethogram_[0-9a-f]{12}_[\w-]{43}")


def test_a_token_is_made_listed_and_revoked(call, document):
    assert "no tokens" in call("token").out
    made = call("token", "create", "build", "--scope", "ingest", "--scope", "metadata", "--expires", "30d")
    assert TOKEN.fullmatch(made.out.strip())
    assert "shown once" in made.err
    listed = call("token", "list").out
    assert re.search(r"build\s+[0-9a-f]{12}\s+metadata, ingest\s+\S+ \S+\s+\S+ \S+\s+never", listed)
    assert made.out.strip()[-43:] not in listed
    (told,) = document("token")["tokens"]
    assert (told["name"], told["scopes"], told["last_used_ns"]) == ("build", ["metadata", "ingest"], None)
    assert told["expires_ns"] - told["created_ns"] == 30 * 86_400 * 10**9
    assert call("token", "revoke", "build").out.startswith("revoked build")
    assert document("token", "list")["tokens"] == []


def test_scripts_read_the_new_token_from_the_document(document):
    made = document("token", "create", "ci")
    assert TOKEN.fullmatch(made["token"])
    assert made["tokens"][0]["scopes"] == ["metadata"]
    assert document("token", "revoke", made["tokens"][0]["id"])["revoked"] == "ci"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("create",), "say: token list"),
        (("burn", "x"), "say: token list"),
        (("create", "x", "--scope", "all"), "there is no scope 'all'; choose from metadata, payloads, write, ingest"),
        (("create", "a b"), "cannot name a token"),
        (("create", "x", "--expires", "soon"), "is not an age"),
        (("revoke", "x"), "no token named 'x'"),
    ],
)
def test_bad_input_is_one_sentence(call, args, words):
    said = call("token", *args)
    assert (said.code, said.err.count("\n")) == (64, 1)
    assert words in said.err


def test_a_server_that_others_can_reach_needs_a_token(call):
    for args in (("--host", "0.0.0.0"), ("--require-token",), ("--allow-host", "lab.example.org")):
        said = call("serve", "--port", "0", *args)
        assert said.code == 64
        assert "ethogram token create NAME --scope ingest" in said.err
        assert said.err.count("\n") == 1
    assert "cannot listen on 192.0.2.1" in _with_token(call, "serve", "--port", "0", "--host", "192.0.2.1").err


def _with_token(call, *args):
    call("token", "create", "sender", "--scope", "ingest")
    return call(*args)


def test_spans_of_other_machines_come_with_a_token(env, call, document):
    token = call("token", "create", "sender", "--scope", "ingest").out.strip()
    reader = call("token", "create", "reader", "--scope", "metadata").out.strip()
    process = subprocess.Popen(
        [str(COMMAND), "serve", "--port", "0", "--host", "0.0.0.0"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    address = process.stdout.readline().strip().replace("0.0.0.0", "127.0.0.1")
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "work", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer x"}, 401),
        ({"authorization": f"Bearer {reader}"}, 403),
        ({"authorization": f"Bearer {token}", "host": "evil.example"}, 403),
        ({"authorization": f"Bearer {token}"}, 200),
    ):
        assert httpx.post(f"{address}/v1/traces", json=body, headers=headers).status_code == status
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "1 span in 1 request" in err
    assert not TOKEN.search(err)
    used = {one["name"]: one["last_used_ns"] is not None for one in document("token")["tokens"]}
    assert used["sender"]
