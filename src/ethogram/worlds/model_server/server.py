"""The server: it reads requests with the protocols of live capture, and writes what a reply function gives."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import msgspec

from ethogram.wire.gateway.call import ModelReply, ModelRequest, WireProtocol
from ethogram.wire.gateway.protocols import estimated_usage, protocol_for
from ethogram.wire.gateway.server import ServerThread

from .scripted import ReplyError, ReplyFunction

THREADS = 64
"""Replies that are worked out at the same time; further calls wait. Streams do not hold a thread."""
REMEMBERED = 10_000
"""How many of the latest calls a server keeps."""
CHARACTERS_PER_TOKEN = 4
"""For requests that only ask for a count."""

_Event = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Event]]
_Send = Callable[[_Event], Awaitable[None]]


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a model server answers.

    `delay_seconds` passes before a reply begins, `event_seconds` before each further event of a stream. `chunk_bytes`
    cuts streams into pieces of that size, wherever that falls, instead of one piece per event. With `usage`, a reply
    that names no tokens gets an estimated count; without it no reply tells any. Streams tell their
    usage where a provider's would, on OpenAI's chat API only if the client asks for it; `stream_usage` off: never.
    """

    delay_seconds: float = 0.0
    event_seconds: float = 0.0
    chunk_bytes: int | None = None
    usage: bool = True
    stream_usage: bool = True
    models: tuple[str, ...] = ("scripted",)


class ServedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it arrived; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ModelServer:
    """A running server: its address, the variables that lead clients to it, and the latest calls."""

    def __init__(self, address: str, calls: deque[ServedCall]) -> None:
        self.address = address
        self.calls = calls

    def variables(self) -> dict[str, str]:
        """Environment variables that lead clients of both packages here; the keys are placeholders."""
        return {
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "OPENAI_API_KEY": "not-needed",
            "ANTHROPIC_BASE_URL": self.address,
            "ANTHROPIC_API_KEY": "not-needed",
        }


@contextmanager
def serve_model(reply: ReplyFunction, options: ServerOptions | None = None, *, port: int = 0) -> Iterator[ModelServer]:
    """Serve a scripted model on 127.0.0.1 while the block runs.

    Args:
        reply: what the model answers to a request; it may raise `ReplyError`. What a reply leaves out (model, usage,
            response id, ids of tool calls) is filled in. One that is not `complete` is sent without its end, and the
            connection is closed.
        options: delays, how streams are cut, whether they tell their usage.
        port: 0 takes a free one.

    Raises:
        BadUsage: the port is taken.

    Example:
        >>> with serve_model(lambda request: text_reply("4")) as server:
        ...     client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="not-needed")
    """
    calls: deque[ServedCall] = deque(maxlen=REMEMBERED)
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="model")
    server = ServerThread(_ModelApp(reply, options or ServerOptions(), calls, pool), port=port, what="the model server")
    server.start()
    try:
        yield ModelServer(server.address, calls)
    finally:
        server.close()
        pool.shutdown(wait=False, cancel_futures=True)


class _ModelApp:
    """The ASGI application."""

    def __init__(
        self, reply: ReplyFunction, options: ServerOptions, calls: deque[ServedCall], pool: ThreadPoolExecutor
    ) -> None:
        self.reply = reply
        self.options = options
        self.calls = calls
        self.pool = pool
        self.numbers = itertools.count(1)

    async def __call__(self, scope: _Event, receive: _Receive, send: _Send) -> None:
        method, path = str(scope["method"]), str(scope["path"])
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        body = await _body(receive)
        self.calls.append(ServedCall(method=method, path=path, headers=headers, body=body))
        protocol = protocol_for(method, path)
        if protocol is not None:
            await self._answer(protocol, body, send)
        elif method == "GET" and path.endswith("/models"):
            await _send_json(send, 200, _models(self.options.models, "anthropic-version" in headers))
        elif method == "POST" and path.endswith("/messages/count_tokens"):
            counted = max(1, len(body) // CHARACTERS_PER_TOKEN)
            await _send_json(send, 200, msgspec.json.encode({"input_tokens": counted}))
        elif method == "HEAD":
            await _send_json(send, 200, b"")
        else:
            problem = {"error": {"type": "not_found_error", "message": f"{method} {path} is not served here"}}
            await _send_json(send, 404, msgspec.json.encode(problem))

    async def _answer(self, protocol: WireProtocol, body: bytes, send: _Send) -> None:
        try:
            request = protocol.request(body)
        except ValueError as error:
            await _send_json(send, 400, protocol.error_body("invalid_request_error", str(error)))
            return
        if self.options.delay_seconds:
            await asyncio.sleep(self.options.delay_seconds)
        try:
            reply = await asyncio.get_running_loop().run_in_executor(self.pool, self.reply, request)
        except ReplyError as error:
            later = [] if error.retry_after is None else [(b"retry-after", f"{error.retry_after:g}".encode())]
            await _send_json(send, error.status, protocol.error_body(error.kind, str(error)), later)
            return
        except Exception as error:  # whatever a script raises is the answer, as a provider's own failure would be
            said = f"the scripted model raised {type(error).__name__}: {error}"
            await _send_json(send, 500, protocol.error_body("server_error", said))
            return
        reply = self._filled(reply, request)
        if request.stream:
            told = self.options.stream_usage and (protocol.name != "openai-chat" or _asks_for_usage(body))
            await self._stream(protocol, reply if told else msgspec.structs.replace(reply, usage=None), send)
        else:
            await _send_json(send, 200, protocol.body_of(reply), complete=reply.complete)

    def _filled(self, reply: ModelReply, request: ModelRequest) -> ModelReply:
        """The reply with what its script left out."""
        return msgspec.structs.replace(
            reply,
            model=reply.model or request.model,
            response_id=reply.response_id or f"reply-{next(self.numbers)}",
            usage=(reply.usage or estimated_usage(request, reply)) if self.options.usage else None,
        )

    async def _stream(self, protocol: WireProtocol, reply: ModelReply, send: _Send) -> None:
        await _start(send, 200, [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")])
        for number, chunk in enumerate(_cut(protocol.events_of(reply), self.options.chunk_bytes)):
            if number and self.options.event_seconds:
                await asyncio.sleep(self.options.event_seconds)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await _end(send, reply.complete)


def _cut(events: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    if size is None:
        yield from events
        return
    whole = b"".join(events)
    for at in range(0, len(whole), size):
        yield whole[at : at + size]


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _StreamedBody(msgspec.Struct):
    stream_options: _StreamOptions | None = None


def _asks_for_usage(body: bytes) -> bool:
    asked = msgspec.json.decode(body, type=_StreamedBody, strict=False).stream_options
    return asked is not None and asked.include_usage


def _models(names: tuple[str, ...], anthropic: bool) -> bytes:
    """The list of models in the form of one provider or the other."""
    if anthropic:
        made = "1970-01-01T00:00:00Z"
        data = [{"type": "model", "id": n, "display_name": n, "created_at": made} for n in names]
        return msgspec.json.encode({"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]})
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "ethogram"} for name in names]
    return msgspec.json.encode({"object": "list", "data": models})


async def _body(receive: _Receive) -> bytes:
    chunks = []
    while True:
        event = await receive()
        chunks.append(event.get("body", b""))
        if not event.get("more_body"):
            return b"".join(chunks)


async def _start(send: _Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _end(send: _Send, complete: bool) -> None:
    if not complete:
        raise ConnectionAbortedError("the script breaks off here")  # the server then closes the connection
    await send({"type": "http.response.body", "body": b""})


async def _send_json(
    send: _Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None, *, complete: bool = True
) -> None:
    """A whole answer; one that is not complete promises more bytes than it has."""
    size = len(body) if complete else len(body) + 1
    described = [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]
    await _start(send, status, [*described, *(headers or [])])
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await _end(send, complete)
