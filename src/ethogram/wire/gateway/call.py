"""A model call in terms that do not depend on the provider: request, reply, and what to do with it.

A `WireProtocol` translates between these records and the bytes of one API. A `CallPolicy` decides about each call
before it is forwarded: caps, the kill switch, faults, replay and forks are all policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from ethogram.traces import Message, Param

CAP_REACHED = "ethogram_cap_reached"
KILLED = "ethogram_killed"
DEVIATION = "ethogram_deviation"
ENDED = "ethogram_episode_ended"
"""Kinds of errors by which agents are told that their episode is over, of models and of tools alike."""

BUDGET_REFUSED = "refused by the budget: "
"""How the error of a call begins that a cap did not let out: findings know it as a step of class budget."""

ProtocolName = Literal["openai-chat", "openai-responses", "anthropic-messages"]


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of a call: `input_tokens` is fresh input only, `output_tokens` includes reasoning.

    `estimated` says that the provider reported nothing and we counted by ourselves. `cache_write_1h_tokens` are those
    cache writes that are kept for an hour, `service_tier` is the tier that served the call, where it is no usual one.
    """

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    service_tier: str | None = None
    estimated: bool = False


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks of a model; `tools` are the definitions as they were sent."""

    protocol: ProtocolName
    model: str | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    params: dict[str, Param] = {}
    stream: bool = False
    at_most_tokens: int | None = None
    """The most that the reply may have, all choices together, where the client limits it."""
    continues: str | None = None
    """The response (or conversation) kept by the provider that this request goes on from; `messages` lack it."""


class Alternative(msgspec.Struct, frozen=True, omit_defaults=True):
    """A further answer to the same request, where the client asked for several."""

    message: Message
    stop_reason: str | None = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model answered; `complete` is false where the answer broke off, `error` what the provider said then.

    `stop_reason` is the provider's word, with one exception: where OpenAI marks the words of a message as a refusal,
    it is `refusal`, as Anthropic says. Any protocol can write a reply that another one has read.
    """

    message: Message = Message("assistant")
    model: str | None = None
    response_id: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    complete: bool = True
    error: str | None = None
    alternatives: tuple[Alternative, ...] = ()
    details: dict[int, dict[str, Any]] = {}
    """What the provider said about a part (by position) beyond its record: ids, signatures of thinking, citations.

    Clients send these back, and providers refuse a conversation without them: a reply that is served from a trace
    needs them. A part of a kind that we have no record for stands here whole, with its `type`.
    """


class StreamReader(Protocol):
    """Follows a reply while it is streamed; what it cannot understand is counted, never raised."""

    @property
    def malformed(self) -> int:
        """Events that could not be understood."""
        ...

    def feed(self, chunk: bytes) -> None:
        """The next bytes, cut anywhere."""
        ...

    def reply(self) -> ModelReply:
        """What has arrived so far; `complete` only if the stream said that it ends."""
        ...


class RequestEdits(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a request: `texts` maps (position of the message, position of its part) to new words."""

    texts: Mapping[tuple[int, int], str] = {}
    system: str | None = None
    """Replaces the system prompt; it is added where there is none."""
    model: str | None = None
    seed: int | None = None
    """Replaces the seed, where the request has one."""
    at_most_tokens: int | None = None
    """Limits the reply; a lower limit of the client's own stays."""


class WireProtocol(Protocol):
    """One API of one provider. Everything here is pure: bytes in, records out, and back."""

    name: ProtocolName

    def serves(self, method: str, path: str) -> bool:
        """Whether a request to this path is a call of this API."""
        ...

    def request(self, body: bytes) -> ModelRequest:
        """What is asked; raises `ValueError` for a body that is none of this API."""
        ...

    def reply(self, body: bytes) -> ModelReply:
        """A whole answer, or the error in it; raises `ValueError` for a body that is neither."""
        ...

    def reader(self) -> StreamReader:
        """A reader for one streamed reply."""
        ...

    def edited(self, body: bytes, edits: RequestEdits) -> bytes:
        """The request with its changes; everything else stays as the client sent it."""
        ...

    def body_of(self, reply: ModelReply) -> bytes:
        """A reply as this API would send it."""
        ...

    def events_of(self, reply: ModelReply) -> Iterator[bytes]:
        """A reply as this API would stream it, one event after the other."""
        ...

    def error_body(self, kind: str, message: str) -> bytes:
        """An error in the form that clients of this API expect."""
        ...


class Forward(msgspec.Struct, frozen=True, kw_only=True):
    """Send the call on, perhaps changed or later; `cut_after` ends the reply after this many bytes of its body."""

    edits: RequestEdits | None = None
    delay_seconds: float = 0.0
    cut_after: int | None = None
    note: str = ""
    """What was changed, in words, for the trace."""


class Serve(msgspec.Struct, frozen=True, kw_only=True):
    """Answer from here; nothing is forwarded and nothing is spent."""

    reply: ModelReply
    delay_seconds: float = 0.0
    note: str = ""


class Refuse(msgspec.Struct, frozen=True, kw_only=True):
    """Answer with an error that clients do not retry by themselves, unless `retry` says that they may."""

    status: int
    kind: str
    message: str
    retry: bool = False
    delay_seconds: float = 0.0
    note: str = ""


Decision = Forward | Serve | Refuse


class CallPolicy(Protocol):
    """Decides about each call of one episode before it is forwarded. Called from the gateway's thread."""

    def decide(self, request: ModelRequest) -> Decision | None:
        """What to do with the call; None leaves it to the next policy."""
        ...

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        """The call is over; `reply` is None where none came or it could not be read."""
        ...


@runtime_checkable
class OfflinePolicy(Protocol):
    """A policy that also decides about calls that are not read: those of no known API, and of a known one in part."""

    def outside(self, method: str, path: str, costly: bool) -> Refuse | None:
        """The answer to a call that is not to be forwarded; `costly` is whether it may have cost something."""
        ...
