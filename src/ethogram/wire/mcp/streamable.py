"""The proxy for servers that speak MCP over streamable HTTP: POST with JSON or events as the reply, GET, DELETE.

It listens on loopback only. Bytes pass as they arrive; of a stream of events each is passed once it is complete.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ethogram.errors import BadUsage
from ethogram.wire.asgi import JSON, LOOPBACK, TEXT, Headers, HttpRequest, Receive, Scope, Send, answer, is_from_here
from ethogram.wire.certificates import trusted
from ethogram.wire.gateway.server import ServerThread
from ethogram.wire.stopping import StopEvent, on_stop_signals

from .calls import CallHandler
from .episode_calls import EpisodeCalls
from .exchange import McpExchange, Passage
from .lines import EventCutter, event_data, with_data
from .recorded import HELLO
from .rpc import read_messages, written
from .sessions import Sessions

if TYPE_CHECKING:
    import httpx

    from .proxy import ProxyResult

SESSION = "mcp-session-id"
CONNECT_SECONDS = 10.0
NOT_FORWARDED = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "keep-alive", "accept-encoding", "upgrade"}
)
NOT_RETURNED = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})


class HttpSession:
    """One session of a client; `upstream` is the server's own name for it, where that is not the client's."""

    def __init__(self, server: str, handler: CallHandler | None) -> None:
        self.server = server
        self.handler = handler
        self.exchange = McpExchange(server, handler)
        self.bound = False
        self.upstream: str | None = None

    @property
    def used(self) -> bool:
        """Whether a tool was called in it."""
        return isinstance(self.handler, EpisodeCalls) and self.handler.calls > 0

    def for_post(self) -> McpExchange:
        """Who follows the messages of a POST. Without a session id clients share one, and ids of requests repeat."""
        return self.exchange if self.bound else McpExchange(self.server, self.handler)


class HttpProxy:
    """Stands between clients on a port of ours and a server at an address."""

    def __init__(self, url: str, sessions: Sessions, port: int = 0) -> None:
        """Raises `BadUsage` for an address that is none, and for a port that is taken."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadUsage(f"{url!r} is not the address of an MCP server; it looks like http://127.0.0.1:8000/mcp")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._loopback = parts.hostname in LOOPBACK
        self._path = parts.path or "/"
        self._query = parts.query
        self._sessions = sessions
        self._known: dict[str, HttpSession] = {}
        self._loose: HttpSession | None = None
        self._opened: list[HttpSession] = []
        self._client: httpx.AsyncClient | None = None
        self.unreadable = 0
        """Messages that could not be read and passed as they were."""
        self._server = ServerThread(self, port=port, what="the proxy")
        self.address = f"{self._server.address}{self._path}"

    def run(self, result: ProxyResult, ready: Callable[[ProxyResult], None]) -> ProxyResult:
        """Serve until SIGINT or SIGTERM; gives what passed."""
        over = StopEvent()
        with on_stop_signals(over.set):
            self.start()
            result.address = self.address
            ready(result)
            try:
                over.wait()
            finally:
                self.close()
        result.unreadable = self.unreadable
        return result

    def start(self) -> None:
        """Serve in a thread of its own; `close` ends it."""
        self._server.start()

    def close(self) -> None:
        """Stop serving, and store what is still open."""
        self._server.close(self._end())
        for session in list(self._opened):
            self._close(session)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request of a client."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not is_from_here(headers):
            await answer(send, 403, b"this proxy serves programs on this machine only\n", [TEXT])
            return
        request = HttpRequest(scope, headers, receive, send)
        working = asyncio.ensure_future(self._serve(request))
        watching = asyncio.ensure_future(request.disconnected())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, watching):
                if not task.done():
                    task.cancel()
            with suppress(asyncio.CancelledError):
                await working

    def _connected(self) -> httpx.AsyncClient:
        """The client of the server: its connections belong to the loop that serves, and end with it."""
        if self._client is None:
            import httpx

            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
                trust_env=not self._loopback,
                verify=trusted(),
            )
        return self._client

    async def _end(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _serve(self, request: HttpRequest) -> None:
        body = await request.body()
        if request.path != self._path:
            await self._forward(request, body, None, Passage(body))
        elif request.method == "POST":
            await self._post(request, body)
        else:
            await self._other(request, body)

    async def _post(self, request: HttpRequest, body: bytes) -> None:
        hello = _says_hello(body)
        session = self._session(request.headers.get(SESSION), hello)
        exchange = session.for_post()
        unreadable = exchange.unreadable
        passage = await asyncio.to_thread(exchange.from_client, body)
        self.unreadable += exchange.unreadable - unreadable
        try:
            if passage.to_server is not None:
                if passage.before:
                    await self._catch_up(request, session, passage.before)
                await self._forward(request, passage.to_server, session, passage, exchange)
                return
        finally:
            if not session.bound:
                await asyncio.to_thread(exchange.end, "the connection was closed before the server answered")
        extra: Headers = []
        if hello and not session.bound and b'"initialize"' in body:
            extra = [(SESSION.encode(), self._bind(session, secrets.token_hex(16), exchange).encode())]
        if passage.to_client is None:
            await answer(request.send, 202, b"", extra)
        else:
            await answer(request.send, 200, passage.to_client, [JSON, *extra])

    async def _other(self, request: HttpRequest, body: bytes) -> None:
        """GET (a stream of what the server sends by itself) and DELETE (the session is over)."""
        session = self._known.get(request.headers.get(SESSION, ""))
        offline = session.handler if session is not None else None
        if offline is not None and offline.offline:
            status = 200 if request.method == "DELETE" else 405
            await answer(request.send, status, b"", [])
        else:
            exchange = None if session is None else session.exchange
            await self._forward(request, body, session, Passage(body), exchange)
        if request.method == "DELETE" and session is not None:
            await asyncio.to_thread(self._close, session)

    async def _forward(
        self,
        request: HttpRequest,
        body: bytes,
        session: HttpSession | None,
        passage: Passage,
        exchange: McpExchange | None = None,
    ) -> None:
        """Send a request on and pass its reply back."""
        import httpx

        try:
            reply = await self._upstream(request, body, session)
        except httpx.HTTPError as error:
            why = f"the MCP server at {self._sessions.server} does not answer: {error or type(error).__name__}"
            errors = [] if exchange is None else await asyncio.to_thread(exchange.end, why, passage.asked)
            told = written(errors, len(errors) > 1)
            await answer(request.send, 502, told or f"{why}\n".encode(), [JSON if told else TEXT])
            return
        try:
            given = reply.headers.get(SESSION)
            if given and session is not None and exchange is not None and not session.bound:
                self._bind(session, given, exchange)
            await self._pass_back(request, reply, exchange, passage)
        finally:
            await reply.aclose()

    async def _pass_back(
        self, request: HttpRequest, reply: httpx.Response, exchange: McpExchange | None, passage: Passage
    ) -> None:
        headers = [(name, value) for name, value in reply.headers.raw if name.lower().decode() not in NOT_RETURNED]
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        readable = exchange is not None and "content-encoding" not in reply.headers
        if exchange is not None and readable and kind == "text/event-stream":
            await request.begin(reply.status_code, headers)
            async for event in self._events(reply, exchange, passage):
                await request.more(event)
            await request.more(b"", last=True)
        elif exchange is not None and readable and kind == "application/json":
            data = await reply.aread()
            passed = await asyncio.to_thread(self._read, exchange, data)
            merged = _joined(passed, passage.to_client)
            await answer(request.send, reply.status_code, merged, headers)
        else:
            await request.begin(reply.status_code, headers)
            async for chunk in reply.aiter_raw():
                await request.more(chunk)
            await request.more(b"", last=True)

    async def _events(self, reply: httpx.Response, exchange: McpExchange, passage: Passage) -> AsyncIterator[bytes]:
        """Events as the client gets them; a stream that breaks off ends with an error for what it left open."""
        import httpx

        if passage.to_client is not None:
            yield b"event: message\ndata: " + passage.to_client + b"\n\n"
        cutter, resumable, why = EventCutter(), False, "the MCP server ended the stream before it answered"
        try:
            async for chunk in reply.aiter_raw():
                for event in cutter.feed(chunk):
                    resumable = resumable or event.startswith(b"id:") or b"\nid:" in event
                    data = event_data(event)
                    passed = await asyncio.to_thread(self._read, exchange, data) if data else data
                    if passed is data:
                        yield event
                    elif passed is not None:
                        yield with_data(event, passed)
        except httpx.HTTPError as error:
            why = f"the connection to the MCP server broke: {error or type(error).__name__}"
        if rest := cutter.rest():
            yield rest
        if not resumable:  # else the client asks for the rest with a GET
            for line in await asyncio.to_thread(exchange.end, why, passage.asked):
                yield b"event: message\ndata: " + line + b"\n\n"

    def _read(self, exchange: McpExchange, data: bytes) -> bytes | None:
        before = exchange.unreadable
        passed = exchange.from_server(data)
        self.unreadable += exchange.unreadable - before
        return passed

    async def _upstream(self, request: HttpRequest, body: bytes, session: HttpSession | None) -> httpx.Response:
        client = self._connected()
        headers = [(n, v) for n, v in request.scope["headers"] if n.decode().lower() not in NOT_FORWARDED]
        if session is not None and session.upstream is not None:
            headers = [(n, v) for n, v in headers if n.lower() != SESSION.encode()]
            if session.upstream:
                headers.append((SESSION.encode(), session.upstream.encode()))
        headers.append((b"accept-encoding", b"identity"))
        query = request.scope["query_string"].decode("latin-1") or (self._query if request.path == self._path else "")
        url = self._origin + request.raw_path + (f"?{query}" if query else "")
        built = client.build_request(request.method, url, headers=headers, content=body)
        return await client.send(built, stream=True)

    async def _catch_up(self, request: HttpRequest, session: HttpSession, handshake: tuple[bytes, ...]) -> None:
        """Greet a server that is asked for the first time, as the client did when the trace answered."""
        session.upstream = ""
        for message in handshake:
            reply = await self._upstream(request, message, session)
            await reply.aread()
            session.upstream = reply.headers.get(SESSION, session.upstream)

    def _session(self, name: str | None, hello: bool) -> HttpSession:
        if name is not None:
            if name not in self._known:
                self._bind(self._open(), name)
            return self._known[name]
        if self._loose is None or (hello and self._loose.used):
            self._loose = self._open()
        return self._loose

    def _open(self) -> HttpSession:
        session = HttpSession(self._sessions.server, self._sessions.open())
        self._opened.append(session)
        return session

    def _bind(self, session: HttpSession, name: str, exchange: McpExchange | None = None) -> str:
        """From now on a session is known by the name that the server gave it."""
        session.bound = True
        session.exchange = exchange or session.exchange
        self._known[name] = session
        if self._loose is session:
            self._loose = None
        return name

    def _close(self, session: HttpSession) -> None:
        if session in self._opened:
            self._opened.remove(session)
            self._known = {name: known for name, known in self._known.items() if known is not session}
            session.exchange.end("the session ended before the server answered")
            self._sessions.close(session.handler)


def _says_hello(body: bytes) -> bool:
    try:
        return any(message.method in HELLO for message in read_messages(body)[0])
    except ValueError:
        return False


def _joined(reply: bytes | None, ours: bytes | None) -> bytes:
    """The server's answers to a batch together with ours; one of them is usually missing."""
    if reply is None or ours is None:
        return reply or ours or b""
    parts = [part.strip().removeprefix(b"[").removesuffix(b"]") for part in (reply, ours)]
    return b"[" + b",".join(part for part in parts if part) + b"]"
