"""Who may ask: by the host a request names, the page that makes it, and the token it brings."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from ethogram.errors import BadUsage
from ethogram.store import open_home
from ethogram.store.tokens import SCOPES, Tokens
from ethogram.wire.access import (
    COOKIE,
    FAILURES,
    REMEMBER_SECONDS,
    WINDOW_SECONDS,
    Access,
    FailedTokens,
    ListenSettings,
    RequestFacts,
    RouteScope,
)

HERE = "127.0.0.1:7420"
OTHERS = ListenSettings(host="0.0.0.0")


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(open_home(str(tmp_path / "home")).files)


def status(access: Access, scope: RouteScope, client: str = "10.0.0.9", **headers: str) -> int:
    """What a request is answered with; 200 where it may go on."""
    facts = RequestFacts(headers={"host": HERE, **headers}, client=client)
    refused = asyncio.run(access.refusal(facts, scope))
    return 200 if refused is None else refused.status


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        (ListenSettings(), False),
        (ListenSettings(host="localhost"), False),
        (ListenSettings(host="127.8.8.8"), False),
        (ListenSettings(host="::1"), False),
        (OTHERS, True),
        (ListenSettings(host="::"), True),
        (ListenSettings(host="192.168.1.4"), True),
        (ListenSettings(host="lab.example.org"), True),
        (ListenSettings(require_token=True), True),
        (ListenSettings(allow_hosts=("lab.example.org",)), True),
    ],
)
def test_which_addresses_need_a_token(tokens: Tokens, settings: ListenSettings, needs: bool) -> None:
    access = Access(tokens, settings)
    assert access.needs_token is needs
    if needs:
        with pytest.raises(BadUsage, match="ethogram token create NAME --scope ingest"):
            access.check_start(["ingest"])
        tokens.create("reader", ["metadata"])
        tokens.create("old", ["ingest"], lifetime_s=0)
        with pytest.raises(BadUsage):
            access.check_start(["ingest"])
        tokens.create("sender", ["ingest"])
    access.check_start(["ingest"])


@pytest.mark.parametrize(
    ("settings", "host", "answered"),
    [
        (ListenSettings(), "127.0.0.1:7420", 200),
        (ListenSettings(), "localhost", 200),
        (ListenSettings(), "LOCALHOST:1", 200),
        (ListenSettings(), "[::1]:7420", 200),
        (ListenSettings(), "evil.example:7420", 403),  # a name that its owner pointed at 127.0.0.1
        (ListenSettings(), "127.0.0.1.evil.example", 403),
        (ListenSettings(), "192.168.1.4:7420", 403),
        (ListenSettings(), "", 403),
        (ListenSettings(), "[", 403),
        (ListenSettings(host="0.0.0.0"), "192.168.1.4:7420", 200),
        (ListenSettings(host="0.0.0.0"), "evil.example", 403),
        (ListenSettings(host="lab.example.org"), "lab.example.org:7420", 200),
        (ListenSettings(allow_hosts=("lab.example.org",)), "lab.example.org", 200),
        (ListenSettings(allow_hosts=("lab.example.org",)), "other.example.org", 403),
    ],
)
def test_the_host_that_is_asked_for(tokens: Tokens, settings: ListenSettings, host: str, answered: int) -> None:
    assert status(Access(tokens, settings), "open", host=host) == answered


@pytest.mark.parametrize(
    ("origin", "answered"),
    [
        (f"http://{HERE}", 200),
        (f"https://{HERE}", 200),  # behind a proxy that speaks TLS
        ("http://127.0.0.1:7421", 403),  # another program of this machine
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("scope", ["open", "metadata", "write"])
def test_the_page_that_asks(tokens: Tokens, scope: RouteScope, origin: str, answered: int) -> None:
    assert status(Access(tokens, ListenSettings()), scope, origin=origin) == answered


@pytest.mark.parametrize("needed", SCOPES)
@pytest.mark.parametrize("held", SCOPES)
def test_a_scope_allows_itself_and_nothing_else(tokens: Tokens, needed: RouteScope, held: RouteScope) -> None:
    _, token = tokens.create("one", [held])  # type: ignore[list-item]
    access = Access(tokens, OTHERS)
    assert status(access, needed, authorization=f"Bearer {token}") == (200 if held == needed else 403)
    assert status(access, "open") == 200


def test_without_a_token_and_with_a_wrong_one(tokens: Tokens) -> None:
    _, token = tokens.create("one", SCOPES)
    access = Access(tokens, OTHERS)
    assert status(access, "metadata") == 401
    assert status(access, "metadata", authorization=f"Basic {token}") == 401
    assert status(access, "metadata", authorization=f"Bearer {token[:-1]}") == 401
    assert status(access, "metadata", authorization=f"bearer {token}") == 200
    assert status(access, "metadata", cookie=f"a=b; {COOKIE}={token}; bad cookie") == 200
    assert status(access, "metadata", cookie=f"{COOKIE}=x") == 401


def test_a_write_needs_our_page_or_a_token_in_the_header(tokens: Tokens) -> None:
    """A cookie goes with whatever request a page makes; only the Origin tells whose page it was."""
    _, token = tokens.create("one", ["write"])
    bearer, cookie, origin = f"Bearer {token}", f"{COOKIE}={token}", f"http://{HERE}"
    for settings in (ListenSettings(), OTHERS):
        access = Access(tokens, settings)
        assert status(access, "write") == 403
        assert status(access, "write", cookie=cookie) == 403
        assert status(access, "write", cookie=cookie, authorization="Bearer x") == 401
        assert status(access, "write", authorization=bearer) == 200
        assert status(access, "write", cookie=cookie, origin=origin) == 200
    assert status(Access(tokens, ListenSettings()), "write", origin=origin) == 200
    assert status(Access(tokens, OTHERS), "write", origin=origin) == 401


def test_a_revoked_or_expired_token_ends_to_work(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    record, token = tokens.create("one", ["metadata"], lifetime_s=3600)
    access = Access(tokens, OTHERS)
    assert status(access, "metadata", authorization=f"Bearer {token}") == 200
    assert tokens.last_used_ns(record) is not None
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3601 * 10**9)
    assert status(access, "metadata", authorization=f"Bearer {token}") == 401  # although it is remembered
    monkeypatch.setattr(time, "time_ns", real)
    tokens.revoke("one")
    later = time.monotonic() + REMEMBER_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert status(access, "metadata", authorization=f"Bearer {token}") == 401


def test_wrong_tokens_are_not_looked_at_for_ever(tokens: Tokens) -> None:
    record, token = tokens.create("one", ["metadata"])
    _, other = tokens.create("two", ["metadata"])
    access = Access(tokens, OTHERS)
    guess = f"Bearer ethogram_{record.id}_{'A' * 43}"
    said = [status(access, "metadata", authorization=guess) for _ in range(FAILURES + 1)]
    assert said == [401] * FAILURES + [429]
    assert status(access, "metadata", authorization=f"Bearer {token}") == 429  # the guesser's next one may be right
    assert status(access, "metadata", authorization=f"Bearer {other}") == 200  # a neighbour behind the same address
    assert status(access, "metadata", client="10.0.0.10", authorization=f"Bearer {token}") == 200


def test_the_window_of_wrong_tokens_passes() -> None:
    failed = FailedTokens()
    source = ("10.0.0.9", "")
    for _ in range(FAILURES):
        failed.add(source, 100.0)
    assert failed.wait_seconds(source, 101.0) == int(WINDOW_SECONDS)
    assert failed.wait_seconds(source, 100.0 + WINDOW_SECONDS) == 0
    for n in range(5000):
        failed.add((str(n), ""), 100.0)
    assert failed.wait_seconds(source, 101.0) == 0  # memory is bounded: the oldest are forgotten
