"""Connections to upstreams: how replies end, when a connection is used again, and what is said of those that break."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ethogram.wire.gateway import upstream_http
from ethogram.wire.gateway.connections import Connections
from ethogram.wire.gateway.upstream_http import HttpConnection, HttpPool, UpstreamFailed, UpstreamRequest

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kind: a\r\n\r\nhello"
OPENED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"
CHUNKED = OPENED + b"6;x=1\r\n world\r\n0\r\nlast: 1\r\n\r\n"


async def asked(reader: asyncio.StreamReader) -> bytes:
    """One request whose body has a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return head + (await reader.readexactly(int(length)) if length else b"")


class Server:
    """A server that says what it is told to, and counts connections."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections = 0
        self.port = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def saying(*replies: bytes, then_close: bool = True) -> Handler:
    """Each reply after one request; then the connection is closed, or kept."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in replies:
            await asked(reader)
            writer.write(reply)
            await writer.drain()
        if not then_close:
            await reader.read()

    return handle


@asynccontextmanager
async def pool_to(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[HttpPool, Server]]:
    server = Server(handler)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    pool = HttpPool(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.port}")
    try:
        yield pool, server
    finally:
        await pool.close()
        listening.close()
        await listening.wait_closed()
        await asyncio.sleep(0.01)  # the server's own connections end


def post(body: bytes | AsyncIterator[bytes] = b"{}", method: str = "POST", **headers: str) -> UpstreamRequest:
    given = [(b"host", b"h"), *((n.replace("_", "-").encode(), v.encode()) for n, v in headers.items())]
    if isinstance(body, bytes):
        given.append((b"content-length", b"%d" % len(body)))
    return UpstreamRequest(method, b"/v1/x?y=1", given, body)


async def all_of(reply: HttpConnection, kept: list[bytes] | None = None) -> bytes:
    parts = [] if kept is None else kept
    try:
        while part := await reply.read():
            parts.append(part)
    finally:
        await reply.aclose()
    return b"".join(parts)


@pytest.mark.parametrize(
    ("reply", "status", "body"),
    [
        (WHOLE, 200, b"hello"),
        (CHUNKED, 200, b"hello world"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + WHOLE, 200, b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx", 200, b"x"),
        (b"HTTP/1.1 500 No\nContent-Length: 1\n\nx", 500, b"x"),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_replies_cut_anywhere_are_whole_and_leave_their_connection_for_the_next(
    reply: bytes, status: int, body: bytes, piece: int
) -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await asked(reader)
            for at in range(0, len(reply), piece):
                writer.write(reply[at : at + piece])
                await asyncio.sleep(0)

    async def go() -> None:
        async with pool_to(slowly) as (pool, server):
            for _ in range(3):
                answer = await pool.send(post())
                assert answer.status == status
                assert not any(name in (b"link", b"last") for name, _ in answer.headers)
                assert await all_of(answer) == body
            assert server.connections == 1

    asyncio.run(go())


def test_a_server_is_found_by_name() -> None:
    async def go() -> None:
        async with pool_to(saying(WHOLE)) as (_, server):
            pool = HttpPool(f"http://localhost:{server.port}")
            assert await all_of(await pool.send(post())) == b"hello"
            await pool.close()

    asyncio.run(go())


def test_what_is_sent_is_what_was_given() -> None:
    seen: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await asked(reader))
        writer.write(WHOLE)

    async def go() -> None:
        async with pool_to(keep) as (pool, _):
            answer = await pool.send(post(b'{"a": 1}', authorization="Bearer k"))
            assert answer.headers == [(b"content-length", b"5"), (b"x-kind", b"a")]
            assert await all_of(answer) == b"hello"

    asyncio.run(go())
    head = b"POST /v1/x?y=1 HTTP/1.1\r\nhost: h\r\nauthorization: Bearer k\r\ncontent-length: 8\r\n\r\n"
    assert seen == [head + b'{"a": 1}']


@pytest.mark.parametrize(
    ("reply", "method", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", "POST", b"until the end"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx", "POST", b"x"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", "POST", b"x"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n", "HEAD", b""),
        (WHOLE + b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", "POST", b"hello"),
        (WHOLE + b"garbage", "POST", b"hello"),
    ],
)
def test_a_connection_that_cannot_be_used_again_is_not(reply: bytes, method: str, body: bytes) -> None:
    async def go() -> None:
        async with pool_to(saying(reply, then_close=b"until" in reply)) as (pool, server):
            for number in (1, 2):
                answer = await pool.send(post(method=method))
                assert (answer.status, await all_of(answer)) == (200, body)
                assert server.connections == number

    asyncio.run(go())


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
def test_a_kept_connection_that_its_server_closed_is_not_used(said: bytes) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await saying(WHOLE + said)(reader, writer)

    async def go() -> None:
        async with pool_to(once) as (pool, server):
            for number in range(1, 6):
                assert await all_of(await pool.send(post())) == b"hello"
                for _ in range(number):  # the end arrives, and perhaps was not looked at yet
                    await asyncio.sleep(0)
            assert server.connections == 5

    asyncio.run(go())


def test_connections_are_kept_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with pool_to(saying(*[WHOLE] * 9, then_close=False)) as (pool, server):
            for _ in range(2):
                replies = await asyncio.gather(*(pool.send(post()) for _ in range(4)))
                assert [await all_of(reply) for reply in replies] == [b"hello"] * 4
            assert server.connections == 4
            monkeypatch.setattr(upstream_http, "IDLE_SECONDS", 0.0)
            await asyncio.sleep(0.01)
            assert await all_of(await pool.send(post())) == b"hello"
            assert (server.connections, len(pool._open)) == (5, 1)

    asyncio.run(go())


@pytest.mark.parametrize(
    ("reply", "read", "why"),
    [
        (b"", None, "in the middle"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", None, "in the middle"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", None, "in the middle"),
        (WHOLE[:-1], b"hell", "in the middle"),
        (CHUNKED[:-2], b"hello world", "in the middle"),
        (OPENED + b"6\r\n wo", b"hello wo", "in the middle"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", None, "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", None, "not HTTP"),
        (OPENED + b"no size\r\n", b"hello", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000, None, "too long"),
    ],
)
def test_a_reply_that_breaks_off_says_so_and_gives_what_came(reply: bytes, read: bytes | None, why: str) -> None:
    async def go() -> None:
        async with pool_to(saying(reply)) as (pool, server):
            if read is None:
                with pytest.raises(UpstreamFailed, match=why) as told:
                    await pool.send(post())
            else:
                answer = await pool.send(post())
                got: list[bytes] = []
                with pytest.raises(UpstreamFailed, match=why) as told:
                    await all_of(answer, got)
                assert b"".join(got) == read
            assert not told.value.unsent
            await asyncio.sleep(0.01)
            assert server.connections == 1  # a call that was sent is not sent again
            assert not pool._open

    asyncio.run(go())


def test_nobody_is_there_or_the_connection_is_reset(unused_port: int) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.transport.abort()

    async def go() -> None:
        with pytest.raises(UpstreamFailed, match="no connection could be made") as told:
            await HttpPool(f"http://127.0.0.1:{unused_port}").send(post())
        assert told.value.unsent
        async with pool_to(reset) as (pool, _):
            with pytest.raises(UpstreamFailed) as told:
                await pool.send(post())
            assert not told.value.unsent

    asyncio.run(go())


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_server_that_does_not_accept_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(30)

    async def go() -> None:
        monkeypatch.setattr(upstream_http, "CONNECT_SECONDS", 0.05)
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
        with pytest.raises(UpstreamFailed, match="in time") as told:
            await HttpPool("http://127.0.0.1:1").send(post())
        assert told.value.unsent

    asyncio.run(go())


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_that_arrives_is_passed_on_as_it_comes(chunked: bool) -> None:
    seen: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        while not b"".join(seen).endswith(b"0\r\n\r\n" if chunked else b"lo"):
            seen.append(await reader.read(100))
        assert (b"chunked" in head) is chunked
        writer.write(WHOLE)
        await reader.read()

    async def body() -> AsyncIterator[bytes]:
        yield b"hel"
        await asyncio.sleep(0.01)
        yield b"lo"

    how = {"transfer_encoding": "chunked"} if chunked else {"content_length": "5"}

    async def go() -> None:
        async with pool_to(take) as (pool, _):
            assert await all_of(await pool.send(post(body(), **how))) == b"hello"
            assert len(pool._idle) == 1

    asyncio.run(go())
    assert b"".join(seen) == (b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n" if chunked else b"hello")


def test_an_upstream_that_answers_before_the_body_is_sent() -> None:
    """Its answer is given, the rest is not sent, and the connection is not used again."""
    refused = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig"
    sent = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refused)
        await writer.drain()
        await asyncio.sleep(0.3)

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(10_000):
            sent += 1
            yield b"x" * 65536
            await asyncio.sleep(0)

    async def go() -> None:
        async with pool_to(refuse) as (pool, _):
            answer = await pool.send(post(endless(), transfer_encoding="chunked"))
            assert (answer.status, await all_of(answer)) == (413, b"big")
            assert sent < 10_000
            assert not pool._idle
            answer = await pool.send(post(b"y" * (8 << 20)))
            assert (answer.status, await all_of(answer)) == (413, b"big")

    asyncio.run(go())


def test_a_body_that_fails_ends_its_connection() -> None:
    class Gone(Exception):
        pass

    async def body() -> AsyncIterator[bytes]:
        yield b"half"
        raise Gone

    async def go() -> None:
        async with pool_to(saying(WHOLE)) as (pool, _):
            with pytest.raises(Gone):
                await pool.send(post(body(), content_length="9"))
            await asyncio.sleep(0.01)
            assert not pool._open

    asyncio.run(go())


def test_a_slow_reader_makes_the_upstream_wait() -> None:
    size, written = 64 << 20, 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await asked(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while written < size:
            writer.write(b"z" * 65536)
            written += 65536
            await writer.drain()

    async def go() -> None:
        async with pool_to(pour) as (pool, _):
            answer = await pool.send(post())
            await asyncio.sleep(0.3)
            assert answer._buffered < 1 << 20
            assert written < size
            assert len(await all_of(answer)) == size

    asyncio.run(go())


def test_a_call_that_is_given_up_ends_its_connection() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def go() -> None:
        async with pool_to(silent) as (pool, _):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pool.send(post()), 0.05)
            await asyncio.sleep(0.01)
            assert not pool._open

    asyncio.run(go())


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "upstream")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    at, at_key = tmp_path / "cert.pem", tmp_path / "key.pem"
    at.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    at_key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return at, at_key


def test_over_tls_certificates_are_checked_and_connections_kept(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    replies = saying(WHOLE, CHUNKED, WHOLE[:-1])

    async def go(trusted: bool) -> None:
        async with pool_to(replies, context) as (pool, server):
            if not trusted:
                with pytest.raises(UpstreamFailed, match="no connection could be made") as told:
                    await pool.send(post())
                assert told.value.unsent
                return
            assert await all_of(await pool.send(post())) == b"hello"
            assert await all_of(await pool.send(post())) == b"hello world"
            with pytest.raises(UpstreamFailed, match="in the middle"):
                await all_of(await pool.send(post()))
            assert server.connections == 1

    asyncio.run(go(trusted=False))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    asyncio.run(go(trusted=True))


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await asked(reader))
            writer.write(CHUNKED if len(seen) == 1 else WHOLE[:-1])
            if len(seen) > 1:
                return

    async def body() -> AsyncIterator[bytes]:
        yield b"{}"

    async def go() -> None:
        async with pool_to(relay) as (_, server):
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            connections = Connections()
            answer: Any = await connections.send(post(), "http://models.example")
            assert (answer.status, await all_of(answer)) == (200, b"hello world")
            answer = await connections.send(post(body(), content_length="2"), "http://models.example")
            with pytest.raises(UpstreamFailed, match="in the middle"):
                await all_of(answer)
            await connections.close()

    asyncio.run(go())
    assert seen[0].startswith(b"POST http://models.example/v1/x?y=1 HTTP/1.1\r\n")
