"""Tokens of a home: shown once, stored as hashes, found in constant time, revoked for good."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.store import open_home
from ethogram.store.redact import SECRETS, Redactor
from ethogram.store.tokens import SCOPES, Tokens, token_id


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(open_home(str(tmp_path / "home")).files)


def test_only_a_hash_is_stored_and_only_for_the_owner(tokens: Tokens, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)  # an open home does not open its tokens
    record, token = tokens.create("build", ["ingest", "metadata"])
    (file,) = (tmp_path / "home" / "tokens").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = token[-43:]
    assert len(token.removeprefix(f"ethogram_{record.id}_")) == 43
    assert secret not in file.read_text()
    assert record.digest in file.read_text()
    assert record.scopes == ("metadata", "ingest")


def test_a_token_is_found_by_its_whole_secret(tokens: Tokens) -> None:
    record, token = tokens.create("one", SCOPES)
    other, other_token = tokens.create("two", SCOPES)
    assert tokens.find(token) == record
    assert token_id(token) == record.id
    swapped = other_token.replace(other.id, record.id)
    changed = token[:-1] + ("A" if token[-1] != "A" else "B")
    for wrong in (swapped, changed, token[:-1], token + "A", "", "Bearer", f"ethogram_{record.id}_", "../" + token):
        assert tokens.find(wrong) is None, wrong


def test_a_revoked_token_is_gone(tokens: Tokens) -> None:
    record, token = tokens.create("one", ["metadata"])
    tokens.note_use(record, time.time_ns())
    assert tokens.revoke("one") == record
    assert tokens.find(token) is None
    assert tokens.all() == []
    assert tokens.last_used_ns(record) is None
    with pytest.raises(NotFound, match="no token named 'one'"):
        tokens.revoke("one")


def test_an_expired_token_is_known_and_not_valid(tokens: Tokens) -> None:
    record, token = tokens.create("short", ["metadata"], lifetime_s=0)
    tokens.create("long", ["metadata"], lifetime_s=3600)
    assert tokens.find(token) == record
    assert record.expired(time.time_ns())
    assert [r.name for r in tokens.valid()] == ["long"]


def test_the_last_use_is_written_once_a_minute(tokens: Tokens) -> None:
    record, _ = tokens.create("one", ["metadata"])
    assert tokens.last_used_ns(record) is None
    start = time.time_ns()
    for later, known in ((0, 0), (30, 0), (61, 61)):
        tokens.note_use(record, start + later * 10**9)
        assert tokens.last_used_ns(record) == start + known * 10**9


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "x" * 65, "-x"])
def test_names_that_cannot_be_one(tokens: Tokens, name: str) -> None:
    with pytest.raises(BadUsage, match="cannot name a token"):
        tokens.create(name, ["metadata"])


def test_a_name_is_taken_once_and_a_scope_is_needed(tokens: Tokens) -> None:
    tokens.create("one", ["metadata"])
    with pytest.raises(BadUsage, match="exists already"):
        tokens.create("one", ["write"])
    with pytest.raises(BadUsage, match="needs a scope"):
        tokens.create("two", [])


def test_a_damaged_record_is_named(tokens: Tokens, tmp_path: Path) -> None:
    record, token = tokens.create("one", ["metadata"])
    (tmp_path / "home" / "tokens" / f"{record.id}.json").write_text("{}")
    with pytest.raises(BadInput, match=f"tokens/{record.id}.json"):
        tokens.find(token)


def test_a_token_in_a_trace_is_redacted(tokens: Tokens) -> None:
    _, token = tokens.create("one", ["metadata"])
    told = Redactor(b"k" * 32, SECRETS).redact(f"curl -H 'Authorization: Bearer {token}' http://x; echo {token}").text
    assert token[-43:] not in told
    assert "[REDACTED:ethogram-token:" in told
