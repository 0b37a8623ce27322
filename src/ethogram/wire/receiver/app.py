"""The receiver as an ASGI application: `POST /v1/traces`, `/v1/logs` and `/v1/metrics` of OTLP/HTTP.

It is an application of its own, so that a larger one can mount it beside pages. Answers follow the protocol: partial
success where some records could not be used, 400 with a sentence for what will never be readable, 503 with
`Retry-After` where the client should come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from ethogram.wire.access import Access, RequestFacts
from ethogram.wire.asgi import JSON, TEXT, Headers, Receive, Scope, Send, answer

from .ingest import MAX_BODY, RETRY_SECONDS, Ingest, OtlpReply, OtlpRequest

PATHS = {"/v1/traces": "traces", "/v1/logs": "logs", "/v1/metrics": "metrics"}
_PROTOBUF = (b"content-type", b"application/x-protobuf")
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords", "metrics": "rejectedDataPoints"}
_CODES = {400: 3, 401: 16, 403: 7, 413: 3, 415: 3, 429: 8, 503: 14}
"""Codes of google.rpc for what HTTP says."""


class OtlpReceiver:
    """Answers requests of exporters once an `Ingest` has made their spans durable."""

    def __init__(self, ingest: Ingest, access: Access) -> None:
        """`access` decides which requests are looked at: from other machines, those with a token of scope `ingest`."""
        self._ingest = ingest
        self._access = access
        self._open: set[asyncio.Future[OtlpReply]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        what = PATHS.get(scope["path"])
        if what is None:
            known = ", ".join(PATHS)
            await answer(send, 404, f"nothing is here; OTLP goes to {known}\n".encode(), [TEXT])
        elif scope["method"] != "POST":
            await answer(send, 405, b"send OTLP with POST\n", [TEXT, (b"allow", b"POST")])
        else:
            is_json = headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
            facts = RequestFacts(headers=headers, client=(scope.get("client") or ("",))[0])
            reply = await self._handled(what, facts, is_json, receive)
            if reply is not None:
                await _send(send, what, reply, is_json)

    async def drained(self) -> None:
        """Wait until every request that came has been answered."""
        if self._open:
            await asyncio.wait(self._open)
        await asyncio.sleep(0)

    async def _handled(self, what: str, facts: RequestFacts, is_json: bool, receive: Receive) -> OtlpReply | None:
        barred = await self._access.refusal(facts, "ingest")
        if barred is not None:
            return OtlpReply(barred.status, barred.why)
        headers = facts.headers
        refused = _unreadable(headers, is_json)
        size = int(headers["content-length"]) if headers.get("content-length", "").isdigit() else 0
        if refused is not None:
            return refused
        if size > MAX_BODY:
            return _too_large()
        if not self._ingest.has_room(size):
            return OtlpReply(503, "more spans wait than can be kept at once; send them again later")
        body = await _body(receive)
        if body is None:
            return None
        if len(body) > MAX_BODY:
            return _too_large()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[OtlpReply] = loop.create_future()
        self._open.add(done)
        done.add_done_callback(self._open.discard)

        def reply(given: OtlpReply) -> None:
            with suppress(RuntimeError):  # the server has ended, and the client sends it again to the next one
                loop.call_soon_threadsafe(_settle, done, given)

        packed = headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")
        self._ingest.offer(OtlpRequest(what, body, packed, is_json, reply))
        return await done


def _settle(done: asyncio.Future[OtlpReply], given: OtlpReply) -> None:
    if not done.done():
        done.set_result(given)


def _unreadable(headers: Mapping[str, str], is_json: bool) -> OtlpReply | None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not is_json and kind != "application/x-protobuf":
        return OtlpReply(415, "the content type must be application/x-protobuf or application/json")
    if headers.get("content-encoding", "").strip().lower() not in ("", "identity", "gzip", "deflate"):
        return OtlpReply(415, "the content encoding must be gzip, deflate or identity")
    return None


def _too_large() -> OtlpReply:
    return OtlpReply(413, f"the body is larger than {MAX_BODY >> 20} MiB; send smaller batches")


async def _body(receive: Receive) -> bytes | None:
    """All of a body, or a little more than is allowed of a larger one; None where the client went away."""
    chunks, size, more = [], 0, True
    while more and size <= MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
    return b"".join(chunks)


async def _send(send: Send, what: str, reply: OtlpReply, is_json: bool) -> None:
    headers: Headers = [JSON if is_json else _PROTOBUF]
    if reply.status in (429, 503):
        headers.append((b"retry-after", str(RETRY_SECONDS).encode()))
    if reply.status != 200:
        said: dict[str, Any] = {"code": _CODES[reply.status], "message": reply.why}
        body = msgspec.json.encode(said) if is_json else _status(said["code"], reply.why)
    elif not reply.rejected and not reply.why:
        body = b"{}" if is_json else b""
    else:
        part = {_REJECTED[what]: str(reply.rejected), "errorMessage": reply.why}
        body = msgspec.json.encode({"partialSuccess": part}) if is_json else _partial(reply)
    await answer(send, reply.status, body, headers)


def _status(code: int, words: str) -> bytes:
    """`google.rpc.Status` in protobuf: a code and a message."""
    return b"\x08" + _varint_of(code) + _text_field(2, words)


def _partial(reply: OtlpReply) -> bytes:
    """The response of every signal has the same shape: field 1 holds how many were rejected, and why."""
    inner = b"\x08" + _varint_of(reply.rejected) + _text_field(2, reply.why)
    return b"\x0a" + _varint_of(len(inner)) + inner


def _text_field(number: int, words: str) -> bytes:
    data = words.encode()
    return bytes([number << 3 | 2]) + _varint_of(len(data)) + data


def _varint_of(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
