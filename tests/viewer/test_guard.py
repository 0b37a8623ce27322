"""The guard in front of an application, over real HTTP: what passes, what is refused, and how people sign in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ethogram.store import open_home
from ethogram.store.tokens import Tokens
from ethogram.viewer.guard import MAX_PATH, Guard, RouteRule
from ethogram.wire.access import Access, ListenSettings
from ethogram.wire.gateway.server import ServerThread

RULES = {
    ("GET", "/"): RouteRule(scope="metadata"),
    ("GET", "/style.css"): RouteRule(scope="open"),
    ("GET", "/words"): RouteRule(scope="payloads"),
    ("POST", "/label"): RouteRule(scope="write", max_body=1000),
}
PAGE = {"accept": "text/html"}


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Says which request came through, with its body."""
    body = (await receive()).get("body", b"")
    told = json.dumps({"path": scope["path"], "body": len(body)}).encode()
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"public"), (b"x-frame-options", b"ALLOW")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": told})


class Guarded:
    """A guarded server with a home of its own, and a client of it."""

    def __init__(self, folder: Path, settings: ListenSettings) -> None:
        self.tokens = Tokens(open_home(str(folder)).files)
        guard = Guard(echo, lambda method, path: RULES.get((method, path)), Access(self.tokens, settings))
        self.server = ServerThread(guard, what="the test")
        self.server.start()
        self.client = httpx.Client(base_url=self.server.address)

    def close(self) -> None:
        self.client.close()
        self.server.close(asyncio.sleep(0))


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("home"), ListenSettings())
    yield guarded
    guarded.close()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("home"), ListenSettings(require_token=True))
    yield guarded
    guarded.close()


@pytest.mark.parametrize(
    ("method", "target", "status", "words"),
    [
        ("GET", "/", 200, '"path": "/"'),
        ("GET", "/nothing", 404, "nothing answers GET"),
        ("POST", "/", 405, "nothing answers POST"),
        ("GET", "/%2e%2e/run.json", 400, "no route has"),
        ("GET", "/a%00b", 400, "no route has"),
        ("GET", "/a%5cb", 400, "no route has"),
        ("GET", "//evil.example/", 400, "no route has"),
        ("GET", "/" + "a" * MAX_PATH, 414, "too long"),
        ("GET", "/?token=ethogram_0123456789ab_" + "A" * 43, 400, "does not belong into an address"),
        ("GET", "/?token=ethogram%5F0123456789ab%5F" + "A" * 43, 400, "does not belong into an address"),
    ],
)
def test_addresses(free: Guarded, method: str, target: str, status: int, words: str) -> None:
    reply = free.client.send(httpx.Request(method, free.server.address + target))
    assert (reply.status_code, words in reply.text) == (status, True), reply.text


@pytest.mark.parametrize("size", [1000, 1001])
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_have_a_limit(free: Guarded, size: int, chunked: bool) -> None:
    body = iter([b"x" * size]) if chunked else b"x" * size
    reply = free.client.post("/label", content=body, headers={"origin": free.server.address})
    assert reply.status_code == (200 if size <= 1000 else 413)
    assert reply.json() == ({"path": "/label", "body": size} if size <= 1000 else reply.json())


@pytest.mark.parametrize(
    ("target", "caching"),
    [("/", "private, no-cache"), ("/style.css", "no-cache"), ("/words", "no-store"), ("/nothing", "no-store")],
)
def test_every_answer_has_the_safe_headers_and_no_other_value(free: Guarded, target: str, caching: str) -> None:
    headers = free.client.get(target).headers
    assert headers.get_list("cache-control") == [caching]
    assert headers.get_list("x-frame-options") == ["DENY"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


def test_a_person_signs_in_with_a_form_and_the_address_never_holds_the_token(locked: Guarded) -> None:
    _, token = locked.tokens.create("ada", ["metadata"])
    with httpx.Client(base_url=locked.server.address, headers=PAGE) as browser:
        asked = browser.get("/?run=x&y=1")
        assert (asked.status_code, asked.headers["location"]) == (303, "/sign-in?next=/%3Frun%3Dx%26y%3D1")
        form = browser.get(asked.headers["location"])
        assert 'name="next" value="/?run=x&amp;y=1"' in form.text
        assert "script-src 'sha256-" in form.headers["content-security-policy"]
        sent = {"token": token, "next": "/?run=x&y=1"}
        assert browser.post("/sign-in", data=sent).status_code == 403  # no Origin: not a page of ours
        origin = {"origin": locked.server.address}
        wrong = browser.post("/sign-in", data={"token": "x"}, headers=origin)
        assert (wrong.status_code, "not one of this home" in wrong.text) == (401, True)
        done = browser.post("/sign-in", data=sent, headers=origin)
        assert (done.status_code, done.headers["location"]) == (303, "/?run=x&y=1")
        kept = done.headers["set-cookie"]
        assert "; HttpOnly; SameSite=Strict" in kept
        assert browser.get("/").status_code == 200
        assert browser.get("/words").status_code == 403  # the token has no such scope
        browser.post("/sign-out", headers=origin)
        assert browser.get("/").status_code == 303


@pytest.mark.parametrize("onward", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\nb", "é", ""])
def test_signing_in_leads_nowhere_else(locked: Guarded, onward: str) -> None:
    token = locked.tokens.create(f"n{len(locked.tokens.all())}", ["metadata"])[1]
    sent, headers = {"token": token, "next": onward}, {"origin": locked.server.address}
    reply = httpx.post(f"{locked.server.address}/sign-in", data=sent, headers=headers)
    assert reply.headers["location"] == "/"


def test_a_link_from_another_site_is_asked_for_again(locked: Guarded) -> None:
    """Browsers withhold a strict cookie on such a link: the sign-in form would greet people who have signed in."""
    link = locked.client.get("/?q=%22%3E%3Cscript%3E", headers={**PAGE, "sec-fetch-site": "cross-site"})
    assert link.status_code == 200
    assert 'content="0; url=/?q=%22%3E%3Cscript%3E"' in link.text
    again = locked.client.get("/", headers={**PAGE, "sec-fetch-site": "same-origin"})
    assert again.status_code == 303


def test_a_program_is_told_what_to_send(locked: Guarded) -> None:
    reply = locked.client.get("/")
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert reply.json() == {"error": "this server needs a token: send a token as: Authorization: Bearer TOKEN"}
    assert locked.client.get("/style.css").status_code == 200
    refused = locked.client.get("/nothing", headers=PAGE)
    assert "<h1>Not Found</h1>" in refused.text
