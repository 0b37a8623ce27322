"""A copy of a reply while it is passed on: decoded and read, so that the call can be recorded."""

from __future__ import annotations

from ethogram.wire.asgi import Headers

from .call import ModelReply, StreamReader, WireProtocol
from .compressed_replies import Decoder, decoder_of
from .headers import header

KEPT_BYTES = 64 << 20
"""A longer reply that is not streamed is passed on, but not read."""
GATHERED = 1 << 14
"""Bytes that are kept as they came before they are read: a stream is read in pieces that take a millisecond at most."""


class ReplyCopy:
    """What has arrived of one reply. Nothing here raises: what cannot be read is None.

    What arrives is kept as it came, and read when somebody asks for it, or when it has become much.
    """

    def __init__(self, protocol: WireProtocol, headers: Headers) -> None:
        """`headers` are those of the upstream's reply."""
        self.received = 0
        kind = header(headers, b"content-type") or b""
        length = header(headers, b"content-length")
        self.length = int(length) if length is not None and length.isdigit() else None
        self._protocol = protocol
        self._reader: StreamReader | None = protocol.reader() if b"text/event-stream" in kind.lower() else None
        self._whole = bytearray()
        self._decoder: Decoder | None = decoder_of(header(headers, b"content-encoding"))
        self._unread: list[bytes] = []
        self._gathered = 0

    def feed(self, chunk: bytes) -> None:
        """The next bytes, as they came."""
        self.keep(chunk)
        if self._gathered > GATHERED:
            self._read()

    def keep(self, chunk: bytes) -> None:
        """The next bytes, which are read later in any case."""
        self.received += len(chunk)
        if self._decoder is not None:
            self._unread.append(chunk)
            self._gathered += len(chunk)

    def _read(self) -> None:
        """Read what was kept."""
        if not self._unread or self._decoder is None:
            return
        gathered = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._gathered = 0
        try:
            plain = self._decoder.decode(gathered)
        except ValueError:
            self._decoder = None
            return
        if self._reader is not None:
            self._reader.feed(plain)
        elif len(self._whole) + len(plain) > KEPT_BYTES:
            self._decoder = None
            self._whole.clear()
        else:
            self._whole += plain

    @property
    def body(self) -> bytes:
        """What has arrived of a reply that is not streamed, decoded."""
        self._read()
        return bytes(self._whole)

    @property
    def malformed(self) -> int:
        """Events of a stream that could not be understood."""
        self._read()
        return 0 if self._reader is None else self._reader.malformed

    @property
    def complete(self) -> bool:
        """Whether everything arrived, though the connection may still be open."""
        if self.length is not None:
            return self.received >= self.length
        self._read()
        return self._reader is not None and self._reader.reply().complete

    def reply(self) -> ModelReply | None:
        """What was read so far; None where it cannot be read."""
        self._read()
        if self._reader is not None:
            return None if self._decoder is None else self._reader.reply()
        if self._decoder is None:
            return None
        try:
            return self._protocol.reply(bytes(self._whole))
        except ValueError:
            return None
