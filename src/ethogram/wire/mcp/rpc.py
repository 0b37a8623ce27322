"""JSON-RPC messages as MCP sends them: read without changing a byte, and answers of our own."""

from __future__ import annotations

from typing import Any

import msgspec

from .calls import McpReply


class _Envelope(msgspec.Struct):
    """What says which kind of message it is; `Raw` keeps the rest as the bytes that came."""

    id: msgspec.Raw = msgspec.Raw()
    method: str = ""
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_envelope = msgspec.json.Decoder(_Envelope)
_batch = msgspec.json.Decoder(list[msgspec.Raw])
_NO_ID = (b"", b"null")


class RpcMessage:
    """One message; `id` is the JSON text of its id, so that 1 and "1" are different ids."""

    __slots__ = ("_envelope", "id", "method", "raw")

    def __init__(self, raw: bytes) -> None:
        """Read a message; raises `ValueError` for what is none."""
        try:
            self._envelope = _envelope.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"not a JSON-RPC message: {error}") from None
        self.raw = raw
        self.method = self._envelope.method
        found = bytes(self._envelope.id)
        self.id = None if found in _NO_ID else found

    @property
    def is_request(self) -> bool:
        """Whether an answer is expected."""
        return bool(self.method) and self.id is not None

    @property
    def is_reply(self) -> bool:
        """Whether it answers a request, with a result or an error."""
        return not self.method and self.id is not None

    @property
    def params(self) -> Any:
        """The parameters, None where there are none."""
        return _value(self._envelope.params)

    @property
    def reply(self) -> McpReply:
        """What an answer says."""
        if bytes(self._envelope.error) not in _NO_ID:
            return McpReply(error=_value(self._envelope.error))
        return McpReply(result=_value(self._envelope.result))


def read_messages(data: bytes) -> tuple[list[RpcMessage], bool]:
    """The messages of one line or body, and whether they came as a batch; raises `ValueError` for anything else."""
    stripped = data.strip()
    if not stripped.startswith(b"["):
        return [RpcMessage(stripped)], False
    try:
        parts = _batch.decode(stripped)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a batch of JSON-RPC messages: {error}") from None
    return [RpcMessage(bytes(part)) for part in parts], True


def written(messages: list[bytes], batch: bool) -> bytes | None:
    """Messages as one line or body; None where there are none."""
    if not messages:
        return None
    return b"[" + b",".join(messages) + b"]" if batch else messages[0]


def reply_to(request: bytes, reply: McpReply) -> bytes:
    """The message that answers the request with this id."""
    name, value = ("result", reply.result) if reply.error is msgspec.UNSET else ("error", reply.error)
    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (request, name.encode(), msgspec.json.encode(value))


def _value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if bytes(raw) else None
