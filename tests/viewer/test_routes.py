"""Every route of the viewer with every scope: read from the table, so that new routes are tested too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import httpx
import pytest

from ethogram.store import open_home
from ethogram.store.tokens import SCOPES, Tokens
from ethogram.viewer.api import ROUTES, ApiRoute, rule_of
from ethogram.viewer.server import WebApp
from ethogram.wire.access import Access, ListenSettings
from ethogram.wire.gateway.server import ServerThread
from ethogram.wire.receiver.app import OtlpReceiver
from ethogram.wire.receiver.live_run import LiveRun

EVERY_ROUTE = pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Viewer and receiver as `ethogram serve` puts them together, where everybody needs a token."""
    home = open_home(str(tmp_path_factory.mktemp("home")))
    tokens = Tokens(home.files)
    held = {scope: tokens.create(scope, [scope])[1] for scope in SCOPES}
    access = Access(tokens, ListenSettings(require_token=True))
    live = LiveRun(home, "live", settle=60.0, redact="default", say=print)
    thread = ServerThread(WebApp(home, access, OtlpReceiver(live.ingest, access)), what="the test")
    thread.start()
    yield SimpleNamespace(address=thread.address, held=held)
    thread.close(asyncio.sleep(0))
    live.give_up()


def asked(server: SimpleNamespace, route: ApiRoute, token: str | None = None, **headers: str) -> int:
    """The status of a request; the answer of an event stream never ends, so that none is read."""
    path = route.path.replace("{name}", "index.js")
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    with httpx.stream(route.method, f"{server.address}{path}", headers=headers) as reply:
        return reply.status_code


@EVERY_ROUTE
def test_a_route_has_a_scope_and_the_guard_knows_it(route: ApiRoute) -> None:
    assert route.scope in (*SCOPES, "open")
    rule = rule_of(route.method, route.path.replace("{name}", "x"))
    assert rule is not None
    assert rule.scope == route.scope
    assert rule_of("DELETE", route.path) is None
    assert (route.method == "GET") or route.scope in ("write", "ingest"), "what changes something is not for readers"
    assert route.path == "/" or route.path.startswith(("/assets/", "/api/", "/v1/"))
    assert route.scope != "open" or route.view is None, "a view reads the home"


@EVERY_ROUTE
@pytest.mark.parametrize("scope", SCOPES)
def test_every_route_with_every_scope(server: SimpleNamespace, route: ApiRoute, scope: str) -> None:
    status = asked(server, route, server.held[scope])
    if route.scope in ("open", scope):
        assert status not in (401, 403, 404, 405, 429) or (status == 404 and route.view is not None), status
    else:
        assert status == 403


@EVERY_ROUTE
def test_every_route_without_a_token_and_with_a_wrong_one(server: SimpleNamespace, route: ApiRoute) -> None:
    unknown = {"GET": 401, "POST": 401 if route.scope == "ingest" else 403}[route.method]
    for token, expected in ((None, unknown), ("ethogram_" + "0" * 12 + "_" + "A" * 43, 401)):
        if route.scope == "open":
            assert asked(server, route, token) == 200
        else:
            assert asked(server, route, token) in (expected, 429)


@EVERY_ROUTE
def test_every_route_from_elsewhere(server: SimpleNamespace, route: ApiRoute) -> None:
    token = server.held.get(route.scope)
    assert asked(server, route, token, host="evil.example") == 403
    assert asked(server, route, token, origin="http://evil.example") == 403


def test_what_is_in_no_table_is_not_there(server: SimpleNamespace) -> None:
    for path in ("/api/nothing", "/assets/", "/assets/../run.json", "/docs", "/static/index.html"):
        reply = httpx.get(f"{server.address}{path}", headers={"authorization": f"Bearer {server.held['metadata']}"})
        assert reply.status_code in (400, 404)
