"""One proxy from its settings: `ethogram mcp` with a command (stdio) or an address (HTTP)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit, urlunsplit

import msgspec

from ethogram.errors import BadUsage
from ethogram.result import Result
from ethogram.store import Home
from ethogram.wire.gateway.headers import EPISODE_VARIABLE
from ethogram.wire.session_store import SessionStore

from .episode import RemoteCalls, find_episode
from .exchange import McpExchange
from .sessions import CallPlan, Sessions
from .stdio import StdioProxy

KIND = "mcp"
REPLAY = "replay"
DEVIATED = 1
"""The exit code of a strict replay in which something was asked that was not recorded."""


class ProxyResult(Result, kw_only=True):
    """What passed through a proxy; `run` is where it was stored, `address` where an HTTP proxy listened.

    Of calls that belong to an episode the run knows the counts; here they are None. `deviation` is the first request
    that a replayed trace could not answer.
    """

    address: str | None = None
    run: str | None = None
    episode: bool = False
    sessions: int = 0
    # not inherited from `CallTotals`, where a count is never unknown
    calls: int | None = None
    failed: int | None = None
    served: int | None = None
    refused: int | None = None
    unreadable: int = 0
    deviation: str | None = None
    exit_code: int = 0


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where calls go and what happens to them; `command` or `url` is the server."""

    command: tuple[str, ...] = ()
    url: str | None = None
    port: int = 0
    run: str | None = None
    plan: CallPlan = CallPlan()
    redact: str = "default"


def run_proxy(
    settings: ProxySettings, home: Callable[[], Home], ready: Callable[[ProxyResult], None] = lambda result: None
) -> ProxyResult:
    """Stand between a client and a server until one of them ends.

    Args:
        settings: the server, and what happens to calls.
        home: opens the home that runs are stored in; called only where something is stored.
        ready: told of the address that an HTTP proxy listens on.

    Returns:
        What passed; its exit code is the server's own.

    Raises:
        BadUsage: for settings that contradict each other, and a server that cannot be started.
    """
    address = find_episode()
    if address is not None and not settings.plan.idle:
        raise BadUsage(
            f"this proxy belongs to an episode ({EPISODE_VARIABLE}), so the run decides what is disturbed and replayed"
        )
    episode = None if address is None else RemoteCalls(address)
    store = None
    if episode is None and settings.run is not None:
        kind = KIND if settings.plan.trace is None else REPLAY
        store = SessionStore(home(), settings.run, kind, redact=settings.redact)
    try:
        sessions = Sessions(server_name(settings.command, settings.url), settings.plan, store, episode)
        result = ProxyResult(run=None if store is None else store.run.name, episode=episode is not None)
        if settings.url is None:
            result = _over_stdio(settings.command, sessions, result)
        else:
            from .streamable import HttpProxy

            result = HttpProxy(settings.url, sessions, settings.port).run(result, ready)
    finally:
        if store is not None:
            store.close()
    totals = sessions.totals
    result.sessions, result.deviation = totals.sessions, totals.deviation
    if result.deviation is not None and not settings.plan.lenient:
        result.exit_code = result.exit_code or DEVIATED
    if episode is None and not (store is None and settings.plan.idle):
        result.calls, result.failed = totals.calls, totals.failed
        result.served, result.refused = totals.served, totals.refused
    return result


def server_name(command: Sequence[str], url: str | None) -> str:
    """How a server is named in traces: as it was started; of an address without its query, which may hold a key."""
    if url is None:
        return shlex.join(command)
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _over_stdio(command: Sequence[str], sessions: Sessions, result: ProxyResult) -> ProxyResult:
    handler = sessions.open()
    exchange = McpExchange(sessions.server, handler)
    try:
        result.exit_code = StdioProxy(command, exchange, lazy=sessions.offline).run()
    finally:
        sessions.close(handler)
        result.unreadable = exchange.unreadable
    return result
