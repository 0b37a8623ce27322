"""Guards an application: no request reaches it unless its route is known, its size bounded and its token allows it.

It signs people in: a token is typed into a form and kept in a cookie that no script can read and no other site can
send. It never stands in an address, where histories, logs and links would keep it. Every answer carries a strict
content-security policy and its companions.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, MutableMapping, Sequence
from hashlib import sha256
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import msgspec

from ethogram.wire.access import COOKIE, Access, Denial, RequestFacts, RouteScope, cookie_token
from ethogram.wire.asgi import JSON, Headers, Receive, Scope, Send, answer
from ethogram.wire.gateway.server import App

MAX_PATH, MAX_QUERY, MAX_FORM = 2048, 8192, 4096
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SAFE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
CACHING: dict[RouteScope, str] = {"open": "no-cache", "metadata": "private, no-cache"}
"""Whether a browser may keep an answer, by the scope of its route; otherwise it may not: words stay in the store."""
_STRANGE_PATH = re.compile(r"[\x00-\x1f\x7f\\]|//|(?:^|/)\.\.?(?:/|$)")
_ANY_TOKEN = re.compile(r"ethogram_[0-9a-f]{12}_")


class RouteRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a route needs: a scope, and the largest body that it takes."""

    scope: RouteScope
    max_body: int = 0


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: App, rule_of: Callable[[str, str], RouteRule | None], access: Access) -> None:
        """`rule_of` gives the rule of a method and a path, None for one that does not exist: it is not passed on."""
        self._app = app
        self._rule_of = rule_of
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the start and end of the server."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._request(_GuardedRequest(scope, receive, send))

    async def _request(self, request: _GuardedRequest) -> None:
        refused = request.malformed() or self._access.misdirected(request.facts)
        if refused is not None:
            await request.refuse(refused)
        elif request.path in (SIGN_IN, SIGN_OUT):
            await self._sign(request)
        else:
            await self._routed(request)

    async def _routed(self, request: _GuardedRequest) -> None:
        rule = self._rule_of(request.method, request.path)
        if rule is None:
            known = any(self._rule_of(method, request.path) is not None for method in ("GET", "POST"))
            why = f"nothing answers {request.method} at this address"
            await request.refuse(Denial(status=405 if known else 404, why=why))
            return
        refused = await self._access.refusal(request.facts, rule.scope)
        if refused is not None and refused.status == 401 and request.is_navigation:
            await request.to_sign_in()
        elif refused is not None:
            await request.refuse(refused)
        elif (body := await request.body(rule.max_body)) is None:
            await request.refuse(_too_large(rule.max_body))
        else:
            request.caching = CACHING.get(rule.scope, "no-store")
            await self._app(request.scope, _Replayed(body, request.receive), request.send)

    async def _sign(self, request: _GuardedRequest) -> None:
        request.policy, request.referrer = FORM_POLICY, "same-origin"  # a form without a referrer has no Origin either
        if request.method == "GET" and request.path == SIGN_IN:
            await request.html(200, sign_in_form(request.query_value("next")))
        elif request.method != "POST":
            await request.refuse(Denial(status=405, why=f"send a form to {request.path} with POST"))
        elif "origin" not in request.facts.headers:
            await request.refuse(Denial(status=403, why="a form comes with the Origin of this server"))
        elif request.path == SIGN_OUT:
            await request.redirect(SIGN_IN, token_cookie("", secure=request.is_secure))
        else:
            await self._signed_in(request)

    async def _signed_in(self, request: _GuardedRequest) -> None:
        body = await request.body(MAX_FORM)
        if body is None:
            await request.refuse(_too_large(MAX_FORM))
            return
        form = parse_qs(body.decode("utf-8", "replace"))
        token, onward = form.get("token", [""])[0].strip(), form.get("next", [""])[0]
        refused = await self._access.token_refusal(token, request.facts.client, None)
        if refused is not None:
            await request.html(refused.status, sign_in_form(onward, refused.why))
        else:
            await request.redirect(own_path(onward), token_cookie(token, secure=request.is_secure))


class _GuardedRequest:
    """One request and the ways to answer it; every answer gets the safe headers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.policy = POLICY
        self.referrer = "no-referrer"
        self.caching = "no-store"
        self._query: str = scope.get("query_string", b"").decode("latin-1")
        self._send = send
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        self.facts = RequestFacts(headers=headers, client=(scope.get("client") or ("",))[0])

    @property
    def is_navigation(self) -> bool:
        """Whether a person follows an address, rather than a script or a program."""
        return self.method == "GET" and "text/html" in self.facts.headers.get("accept", "")

    @property
    def is_secure(self) -> bool:
        return bool(self.scope.get("scheme") == "https")

    def malformed(self) -> Denial | None:
        if len(self.path) > MAX_PATH or len(self._query) > MAX_QUERY:
            return Denial(status=414, why="the address is too long")
        if _STRANGE_PATH.search(self.path):
            return Denial(status=400, why="the path has parts that no route has")
        if _ANY_TOKEN.search(unquote(self._query)):
            return Denial(status=400, why=f"a token does not belong into an address; sign in at {SIGN_IN}")
        return None

    def query_value(self, name: str) -> str:
        return parse_qs(self._query).get(name, [""])[0]

    async def body(self, most: int) -> bytes | None:
        """All of the body; None where it is larger than allowed, which is told as early as it is known."""
        length = self.facts.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > most:
            return None
        chunks, size, more = [], 0, True
        while more and size <= most:
            message = await self.receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            more = message.get("more_body", False)
        return b"".join(chunks) if size <= most else None

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            safe = SAFE_HEADERS | {"content-security-policy": self.policy, "cache-control": self.caching}
            safe["referrer-policy"] = self.referrer
            own = [(n, v) for n, v in message.get("headers", ()) if n.decode("latin-1").lower() not in safe]
            message = {**message, "headers": [*own, *((n.encode(), v.encode()) for n, v in safe.items())]}
        await self._send(message)

    async def refuse(self, refused: Denial) -> None:
        extra: Headers = []
        if refused.status == 401:
            extra.append((b"www-authenticate", b"Bearer"))
        if refused.retry_after is not None:
            extra.append((b"retry-after", str(refused.retry_after).encode()))
        if self.is_navigation:
            title = HTTPStatus(refused.status).phrase
            await self.html(refused.status, f"<h1>{title}</h1><p>{escape(refused.why)}.</p>", extra)
        else:
            await answer(self.send, refused.status, msgspec.json.encode({"error": refused.why}), [JSON, *extra])

    async def html(self, status: int, body: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Ethogram</title>{body}</html>'
        await answer(self.send, status, page.encode(), [(b"content-type", b"text/html; charset=utf-8"), *headers])

    async def redirect(self, where: str, cookie: str | None = None) -> None:
        kept = [(b"set-cookie", cookie.encode())] if cookie is not None else []
        await answer(self.send, 303, b"", [(b"location", where.encode()), *kept])

    async def to_sign_in(self) -> None:
        here = quote(self.path) + (f"?{self._query}" if self._query else "")
        is_link = self.facts.headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if is_link and not cookie_token(self.facts.headers):
            # a strict cookie is not sent with a link from elsewhere; asked for again by a page of ours, it is
            await self.html(200, f'<meta http-equiv="refresh" content="0; url={escape(here)}">')
        else:
            await self.redirect(f"{SIGN_IN}?next={quote(here, safe='/')}")


class _Replayed:
    """Gives a body that was read already to the application, and then whatever the client does next."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> MutableMapping[str, Any]:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _too_large(most: int) -> Denial:
    return Denial(status=413, why=f"the body is larger than {most:,} bytes")


SIGN_IN, SIGN_OUT = "/sign-in", "/sign-out"


COOKIE_SECONDS = 30 * 86_400


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto; padding: 0 1rem }
:root { color-scheme: light dark }
input, button { font: inherit; padding: .4rem .6rem; width: 100%; box-sizing: border-box; margin: .3rem 0 }
"""


# the part of an address after # stays in the browser; sent along with the form, it is there again after signing in
SCRIPT = "document.forms[0].action += location.hash"


def _hash_of(inline: str) -> str:
    """How a policy names the one inline style or script that it allows."""
    return f"sha256-{base64.b64encode(sha256(inline.encode()).digest()).decode()}"


FORM_POLICY = (
    f"default-src 'none'; style-src '{_hash_of(STYLE)}'; script-src '{_hash_of(SCRIPT)}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def sign_in_form(onward: str, problem: str = "") -> str:
    """The form; `onward` is where to go afterwards, `problem` what was wrong with the last token."""
    told = f'<p role="alert">{escape(problem)}.</p>' if problem else ""
    return (
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style><main><h1>Ethogram</h1>{told}'
        f'<form method="post" action="{SIGN_IN}"><label for="token">Token</label>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>'
        f'<input type="hidden" name="next" value="{escape(own_path(onward))}"><button>Sign in</button></form>'
        "<p>Make one where the runs are: <code>ethogram token create NAME</code></p></main>"
        f"<script>{SCRIPT}</script>"
    )


def own_path(onward: str) -> str:
    """Where to go after signing in: a path of this server and nothing else."""
    plain = (
        onward.startswith("/") and not onward.startswith(("//", "/\\")) and onward.isascii() and onward.isprintable()
    )
    return onward if plain else "/"


def token_cookie(token: str, *, secure: bool) -> str:
    """The cookie that keeps a token; without one, it is forgotten."""
    seconds = COOKIE_SECONDS if token else 0
    return f"{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
