"""Access to our servers: no token is needed on loopback, one is needed on any other address.

Every request passes the same checks, in this order: the address asked for (`Host`, against DNS rebinding), the page
that asks (`Origin`, against forged requests of other sites), then the token and its scopes. Decisions are made here;
the guard of the viewer applies them to an application, and the OTLP receiver asks for them itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from ethogram.errors import BadUsage
from ethogram.store.tokens import AccessToken, Tokens, TokenScope, token_id

from .asgi import LOOPBACK
from .gateway.upstreams import is_address

RouteScope = TokenScope | Literal["open"]
"""The scope that a route needs; `open` ones hold nothing of the home, such as scripts and styles."""
COOKIE = "ethogram_token"
REMEMBER_SECONDS = 2.0
"""A token that was found valid is not looked up again before this time; a revoked one stops working by then."""
FAILURES, WINDOW_SECONDS = 10, 60.0
"""Wrong tokens from one address within the window; after these, further ones are not looked at."""
MOST_ADDRESSES = 4096
UNKNOWN_TOKEN = "the token is not one of this home, or was revoked"  # noqa: S105 - a sentence
HOW_TO_SEND = "send a token as: Authorization: Bearer TOKEN"


class ListenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, by which other names it may be called, and whether loopback needs a token too."""

    host: str = "127.0.0.1"
    allow_hosts: tuple[str, ...] = ()
    require_token: bool = False

    @property
    def needs_token(self) -> bool:
        """A server that others can reach, directly or by a proxy that calls it by another name, needs tokens."""
        return self.require_token or bool(self.allow_hosts) or not is_loopback(self.host)


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What access is decided by: the headers (names in lower case) and the address of the client."""

    headers: Mapping[str, str]
    client: str = ""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request is not answered, in one sentence that goes to the client."""

    status: int
    why: str
    retry_after: int | None = None


class Access:
    """Decides on requests by the tokens of a home and the address of the server."""

    def __init__(self, tokens: Tokens, settings: ListenSettings) -> None:
        """`settings` are those that the server listens with."""
        self.needs_token = settings.needs_token
        self._tokens = tokens
        self._settings = settings
        own = {socket.gethostname().lower(), settings.host.lower()} if not is_loopback(settings.host) else set()
        self._names = {*LOOPBACK, *own, *(name.lower() for name in settings.allow_hosts)}
        self._failed = FailedTokens()
        self._known: dict[str, tuple[float, AccessToken]] = {}

    def check_start(self, scopes: Collection[TokenScope]) -> None:
        """Raises `BadUsage` where a token is needed and there is none with one of the scopes that are served."""
        if self.needs_token and not any(set(scopes) & set(record.scopes) for record in self._tokens.valid()):
            wanted = " ".join(f"--scope {scope}" for scope in scopes)
            why = "--require-token" if is_loopback(self._settings.host) else f"listening on {self._settings.host}"
            why = "--allow-host" if self._settings.allow_hosts else why
            raise BadUsage(f"{why} needs a token; make one first with: ethogram token create NAME {wanted}")

    def misdirected(self, facts: RequestFacts) -> Denial | None:
        """Refuses a request that was meant for another host, or that a page of another site makes."""
        host = _hostname(facts.headers.get("host", ""))
        if host is None or not self._is_ours(host):
            return Denial(status=403, why=f"this server is not called {host or 'that'}; --allow-host allows a name")
        origin = facts.headers.get("origin")
        if origin is not None and _netloc(origin) != facts.headers["host"].lower():
            return Denial(status=403, why="pages of other sites may not ask this server")
        return None

    async def refusal(self, facts: RequestFacts, scope: RouteScope) -> Denial | None:
        """Why a request to a route that needs this scope is refused; None where it may go on."""
        refused = self.misdirected(facts)
        if refused is not None or scope == "open":
            return refused
        # browsers send Origin with every write; without it only a token that no page can make a browser send will do
        forgeable = scope == "write" and "origin" not in facts.headers
        if forgeable and "authorization" not in facts.headers:
            return Denial(status=403, why=f"a write needs the Origin of this server; or {HOW_TO_SEND}")
        if not self.needs_token and not forgeable:
            return None
        presented = bearer(facts.headers) or ("" if forgeable else cookie_token(facts.headers))
        return await self.token_refusal(presented, facts.client, scope)

    async def token_refusal(self, presented: str, client: str, scope: TokenScope | None) -> Denial | None:
        """Why a token does not allow a scope (None: any); wrong ones are counted for the address they come from."""
        if not presented:
            return Denial(status=401, why=f"this server needs a token: {HOW_TO_SEND}")
        now = time.monotonic()
        known = self._known.get(presented)
        if known is not None and now < known[0]:
            record: AccessToken | None = known[1]
        else:
            source = (client, token_id(presented) or "")
            wait = self._failed.wait_seconds(source, now)
            if wait:
                return Denial(status=429, why="too many wrong tokens; wait a minute", retry_after=wait)
            record = await asyncio.to_thread(self._looked_up, presented)
            if record is None:
                self._failed.add(source, now)
                return Denial(status=401, why=UNKNOWN_TOKEN)
            self._remember(presented, record, now)
        assert record is not None
        if record.expired(time.time_ns()):
            return Denial(status=401, why=f"the token {record.name} has expired")
        if scope is not None and scope not in record.scopes:
            return Denial(status=403, why=f"the token {record.name} does not have the scope {scope}")
        return None

    def _looked_up(self, presented: str) -> AccessToken | None:
        record = self._tokens.find(presented)
        if record is not None and not record.expired(now := time.time_ns()):
            self._tokens.note_use(record, now)
        return record

    def _remember(self, presented: str, record: AccessToken, now: float) -> None:
        self._known = {token: kept for token, kept in self._known.items() if kept[0] > now}
        self._known[presented] = (now + REMEMBER_SECONDS, record)

    def _is_ours(self, host: str) -> bool:
        """A name that was not allowed may have been pointed at us by its owner; a bare address cannot be."""
        if host in self._names:
            return True
        return not is_loopback(self._settings.host) and is_address(host)


class FailedTokens:
    """Counts wrong tokens by where they come from and the id that they name, within bounded memory.

    The id is part of the count, so that one program with an old token does not lock out its neighbours.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def add(self, source: tuple[str, str], now: float) -> None:
        """Count one."""
        count, since = self._counts.pop(source, (0, now))
        self._counts[source] = (count + 1, since) if now - since < WINDOW_SECONDS else (1, now)
        if len(self._counts) > MOST_ADDRESSES:
            self._counts.popitem(last=False)

    def wait_seconds(self, source: tuple[str, str], now: float) -> int:
        """How long to wait before the next token is looked at; 0 where it may be tried now."""
        count, since = self._counts.get(source, (0, now))
        left = since + WINDOW_SECONDS - now
        return int(left) + 1 if count >= FAILURES and left > 0 else 0


def bearer(headers: Mapping[str, str]) -> str:
    """The token of the `Authorization` header, if there is one."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def cookie_token(headers: Mapping[str, str]) -> str:
    """The token that signing in left with a browser, if there is one."""
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _hostname(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
